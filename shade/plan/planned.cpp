#include "shade/plan/planned.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "shade/base/error.h"
#include "shade/base/units.h"
#include "shade/base/visible_text.h"
#include "shade/plan/dry_run.h"
#include "shade/plan/step_timeline.h"

namespace shade::plan {
namespace {

// As `shade bench` would start it: some kernels of a CPU have scratch memory for each thread.
void use_planned_threads(const train::Resolved<measure::Experiment>& run) {
  static const int all = at::get_num_threads();
  const auto wanted = static_cast<int>(run->work.threads);
  at::set_num_threads(wanted > 0 ? wanted : run.ranks() > 1 ? 1 : all);
}

// Under the keys of a measured result, and all of the prediction in `time`.
void add_time(Json& out, const PlannedTime& planned, const StepRecord& record) {
  const auto& time = planned.time;
  auto prediction = planned.json();
  out["phases_ms"] = prediction["phases_ms"];
  auto& traffic = out["communication"];
  traffic["time_ms"] = Millis(time.communication).count();
  traffic["exposed_ms"] = Millis(time.exposed).count();
  traffic["overlapped_ms"] = Millis(std::max(Seconds(0), time.communication - time.exposed)).count();
  const double flops = record.model_flops * record.ranks;  // of all ranks
  if (time.step.count() > 0) out["gflops_per_second"] = flops / time.step.count() / 1e9;
  if (planned.mfu > 0) {
    out["mfu"] = planned.mfu;
    out["stated_gflops_per_second"] = flops / time.step.count() / planned.mfu / 1e9;
  }
  out.update({{"avg_time_ms", Millis(time.step).count()},
              {"tokens_per_second", planned.tokens_per_second},
              {"fits", planned.fits},
              {"time", std::move(prediction)}});
}

}  // namespace

void Planned::make(const Target& target, Events events) {
  use_planned_threads(run);
  try {
    record = dry_run(*run, {.ranks = ranks(), .accelerator = target.accelerator(), .capacity = capacity});
    if (target.device) {
      const bool narrow = run->model.dtype == train::ComputeType::bf16;
      time = target.predict(record);
      process = narrow ? target.device->process_bf16 : target.device->process;
    }
  } catch (const UsageError& fault) {
    refused = fault.what();
    return;
  }
  if (time && events == Events::timeline) timeline = timeline_of(record, time->time, *target.device);
  if (time) time->time.events = {};
  if (events != Events::keep) record.events = {};
}

Json Planned::json() const {
  const auto& [bench, shard, dp] = std::tie(run->bench, run->shard, run->dp);
  Json out{{"name", name},
           {"model", without_folders(run->model.model)},
           {"mode", run->mode},
           {"dp", to_string(dp.dp)},
           {"shard", to_string(shard.shard)},
           {"seq_length", run->work.seq_length},
           {"batch_size", bench.batch_size},
           {"grad_accum", bench.grad_accum},
           {"num_ranks", ranks()},
           {"config", without_folders(run->options)}};
  if (!refused.empty()) {
    out.update({{"failed", true}, {"reason", refused}});
    return out;
  }
  out.update(to_json(record));
  if (resident().count > 0) out["peak_resident_mb"] = mib(resident());
  if (time) add_time(out, *time, record);
  if (timeline) out["timeline"] = timeline->json();
  return out;
}

std::optional<Bytes> Target::accelerator() const {
  return device && device->asynchronous ? std::optional(device->memory) : std::nullopt;
}

PlannedTime Target::predict(const StepRecord& record) const {
  SHADE_CHECK(device, "no device was named");
  PlannedTime out{.time = predict_time(record, *device, options)};
  const double seconds = out.time.step.count();
  if (seconds > 0) out.tokens_per_second = static_cast<double>(record.tokens) / seconds;
  if (seconds > 0 && device->bf16_spec > 0) out.mfu = record.model_flops / seconds / device->bf16_spec;
  out.fits = device->memory.count == 0 || std::max(record.peak.total, record.reserved) <= device->memory;
  return out;
}

Json PlannedTime::json() const {
  auto out = time.json();
  out["tokens_per_second"] = tokens_per_second;
  if (mfu > 0) out["mfu"] = mfu;
  out["fits"] = fits;
  return out;
}

}  // namespace shade::plan
