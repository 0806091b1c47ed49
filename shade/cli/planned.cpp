#include "shade/cli/planned.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/base/terminal.h"
#include "shade/base/visible_text.h"
#include "shade/cli/bench_line.h"
#include "shade/measure/mib.h"
#include "shade/plan/dry_run.h"
#include "shade/plan/step_record.h"
#include "shade/plan/step_timeline.h"

namespace shade::cli {
namespace {

// Ranks of a plan are not started: there may be more of them than processes of a host.
constexpr int kMostRanks = 16384;

int ranks_of(const measure::MatrixRow& row) {
  int ranks = 1;
  for (size_t i = 0; i + 1 < row.arguments.size(); ++i) {
    if (row.arguments[i] != "--ranks") continue;
    const auto& word = row.arguments[i + 1];
    const auto number = parse_integer(word);
    SHADE_REQUIRE(number && *number >= 1 && *number <= kMostRanks, "--ranks ", word, "; expected a number from 1 to ",
                  kMostRanks);
    ranks = static_cast<int>(*number);
  }
  return ranks;
}

Arguments without_ranks(const Arguments& words) {
  Arguments out;
  for (size_t i = 0; i < words.size(); ++i)
    if (words[i] == "--ranks")
      ++i;
    else
      out.push_back(words[i]);
  return out;
}

// As `shade bench` would start it: some kernels of a CPU have scratch memory for each thread.
void use_planned_threads(const Planned& planned) {
  static const int all = at::get_num_threads();
  const auto wanted = static_cast<int>(planned.experiment.bench.threads);
  at::set_num_threads(wanted > 0 ? wanted : planned.ranks > 1 ? 1 : all);
}

// Under the keys of a measured result, and all of the prediction in `time`.
void add_time(Json& out, const PlanTime::Row& row, const plan::StepRecord& record) {
  const auto& time = row.time;
  auto prediction = row.json();
  out["phases_ms"] = prediction["phases_ms"];
  auto& traffic = out["communication"];
  traffic["time_ms"] = Millis(time.communication).count();
  traffic["exposed_ms"] = Millis(time.exposed).count();
  traffic["overlapped_ms"] = Millis(std::max(Seconds(0), time.communication - time.exposed)).count();
  const double flops = record.model_flops * record.ranks;  // of all ranks
  if (time.step.count() > 0) out["gflops_per_second"] = flops / time.step.count() / 1e9;
  if (row.mfu > 0) {
    out["mfu"] = row.mfu;
    out["stated_gflops_per_second"] = flops / time.step.count() / row.mfu / 1e9;
  }
  out.update({{"avg_time_ms", Millis(time.step).count()},
              {"tokens_per_second", row.tokens_per_second},
              {"fits", row.fits},
              {"time", std::move(prediction)}});
}

}  // namespace

Planned Planned::read(const measure::MatrixRow& row, std::vector<std::string>& notes) {
  Planned out{.row = row, .ranks = ranks_of(row)};
  BenchLine line;
  line.planned_ranks = out.ranks;
  SHADE_REQUIRE(!line.parse(without_ranks(row.arguments)), "--help stands between the options of a matrix");
  out.experiment = line.experiment;
  out.unused = line.unused;
  for (const auto& note : line.notes)
    if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
  return out;
}

void Planned::make(const PlanTime& predicted, Events events) {
  use_planned_threads(*this);
  try {
    record = plan::dry_run(experiment, {.ranks = ranks, .accelerator = predicted.accelerator(), .capacity = capacity});
    if (predicted.device()) {
      const bool narrow = experiment.bench.dtype == train::ComputeType::bf16;
      time = predicted.predict(row.name, record);
      process = narrow ? predicted.device()->process_bf16 : predicted.device()->process;
    }
  } catch (const UsageError& fault) {
    refused = fault.what();
    return;
  }
  if (time && events == Events::timeline) timeline = plan::timeline_of(record, time->time, *predicted.device());
  if (time) time->time.events = {};
  if (events != Events::keep) record.events = {};
}

Json Planned::json() const {
  const auto& [bench, shard, dp] = std::tie(experiment.bench, experiment.shard, experiment.dp);
  Json out{{"name", row.name},
           {"model", without_folders(bench.model)},
           {"mode", experiment.mode},
           {"dp", to_string(dp.dp)},
           {"shard", to_string(shard.shard)},
           {"seq_length", bench.seq_length},
           {"batch_size", bench.batch_size},
           {"grad_accum", bench.grad_accum},
           {"num_ranks", ranks},
           {"config", without_folders(experiment.options)}};
  if (!refused.empty()) {
    out.update({{"failed", true}, {"reason", refused}});
    return out;
  }
  out.update(plan::to_json(record));
  if (resident().count > 0) out["peak_resident_mb"] = measure::mib(resident());
  if (time) add_time(out, *time, record);
  if (!timeline.is_null()) out["timeline"] = timeline;
  return out;
}

void PlanTime::add_to(CLI::App& app) {
  std::vector<std::string> names;
  for (const auto& profile : plan::known_profiles()) names.push_back(profile.name);
  app.add_option("--device-profile", profile_,
                 text("device that times are predicted for: ", join(names, ", "),
                      ", or a JSON file as shade calibrate writes it [none: no times]"))
      ->type_name("NAME");
  app.add_option("--straggler-spread", options_.straggler_spread,
                 "relative standard deviation of the ranks' computing times; steps wait for the slowest [0]")
      ->type_name("SHARE")
      ->check(CLI::Range(0.0, 10.0));
}

void PlanTime::read() {
  if (!profile_.empty()) device_ = plan::device_profile(profile_);
  SHADE_REQUIRE(device_ || options_.straggler_spread == 0,
                "--straggler-spread needs a device to predict times for; add --device-profile");
}

std::optional<Bytes> PlanTime::accelerator() const {
  return device_ && device_->asynchronous ? std::optional(device_->memory) : std::nullopt;
}

PlanTime::Row PlanTime::predict(const std::string& name, const plan::StepRecord& record) const {
  SHADE_CHECK(device_, "no device was named");
  Row out{.name = name, .time = plan::predict_time(record, *device_, options_)};
  const double seconds = out.time.step.count();
  if (seconds > 0) out.tokens_per_second = static_cast<double>(record.tokens) / seconds;
  if (seconds > 0 && device_->bf16_spec > 0) out.mfu = record.model_flops / seconds / device_->bf16_spec;
  out.fits = device_->memory.count == 0 || std::max(record.peak.total, record.reserved) <= device_->memory;
  return out;
}

Json PlanTime::Row::json() const {
  auto out = time.json();
  out["tokens_per_second"] = tokens_per_second;
  if (mfu > 0) out["mfu"] = mfu;
  out["fits"] = fits;
  return out;
}

std::string PlanTime::table(const std::vector<Row>& rows) const {
  const bool spec = device_->bf16_spec > 0;
  std::vector<std::string> header{"experiment", "time per step",     "tokens/s",
                                  "computing",  "waiting for ranks", "waiting for the host"};
  if (spec) header.emplace_back("MFU (bf16)");
  header.emplace_back("memory");
  Table out(header);
  for (const auto& row : rows) {
    std::vector<std::string> cells{row.name,
                                   to_string(row.time.step),
                                   significant(row.tokens_per_second),
                                   to_string(row.time.compute),
                                   to_string(row.time.exposed),
                                   to_string(row.time.idle)};
    if (spec) cells.push_back(significant(100 * row.mfu) + " %");
    cells.emplace_back(row.fits ? "fits" : "does not fit");
    out.add(std::move(cells));
  }
  return text("predicted on ", visible(device_->name, 60), " (", visible(device_->device, 60), ", ",
              visible(device_->source, 120), ")\n", out.str());
}

}  // namespace shade::cli
