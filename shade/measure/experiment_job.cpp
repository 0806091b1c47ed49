#include "shade/measure/experiment_job.h"

namespace shade::measure {

train::JobOptions job_options(const Experiment& experiment, models::Model& model, int ranks) {
  const auto& [config, shard, dp] = std::tie(experiment.bench, experiment.shard, experiment.dp);
  const int64_t samples = config.batch_size * config.grad_accum * ranks;
  auto step =
      train::step_options(dp, {.before_noise = [](int64_t, const hash::Digest&) {}});  // where a ledger is written
  step.privacy = dp.event(static_cast<double>(samples));
  step.rehearsal = dp.clip.norm_timing || shard.reduce_dtype != nn::DType::fp32;
  return {.model = &model,
          .step = std::move(step),
          .optimizer = experiment.optim,
          .shard = shard,
          .dtype = train::dtype_of(experiment.model.dtype),
          .micro_batch = config.batch_size,
          .seed = static_cast<uint64_t>(experiment.work.seed),
          .unaccounted = true};
}

}  // namespace shade::measure
