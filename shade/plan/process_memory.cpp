#include "shade/plan/process_memory.h"

#include <ATen/ATen.h>

#include "shade/measure/experiment_job.h"
#include "shade/measure/feed.h"
#include "shade/plan/dry_run.h"
#include "shade/profile/memory.h"

namespace shade::plan {
namespace {

measure::Experiment small_experiment(int ranks) {
  measure::Experiment out;
  out.bench.model = "llama3-8b";
  out.bench.seq_length = 128;
  out.sizes = {.hidden_dim = 256, .num_layers = 2, .num_heads = 4, .num_kv_heads = 2, .ffn_dim = 768};
  out.sizes.vocab_size = 512;
  out.shard.shard = ranks > 1 ? catalog::Strategy::zero3 : catalog::Strategy::none;
  return out;
}

Bytes peak_resident(comm::World& world, const measure::Experiment& experiment, const shard::Groups& groups) {
  const auto model = models::make_model(experiment.bench.model, experiment.sizes, experiment.bench.options());
  measure::Feed feed(experiment, *model, world.place(), world.device());
  auto options = measure::job_options(experiment, *model, world.size());
  options.device = world.device();
  options.groups = groups;
  train::Job job(world, std::move(options));
  for (int step = 0; step < 2; ++step) job.step(feed.next());
  return profile::process_memory().peak_resident;
}

}  // namespace

BesideTensors beside_tensors(comm::World& world) {
  auto experiment = small_experiment(world.size());
  const auto groups = shard::connect_groups(world, shard::policy_of(experiment.shard, world.size()));
  const auto besides = [&](train::ComputeType type) {
    experiment.bench.dtype = type;
    const auto resident = peak_resident(world, experiment, groups);
    const auto pages = dry_run(experiment, {.ranks = world.size()}).pages;
    auto most = at::tensor(std::vector<int64_t>{resident.count, pages.count}, at::kLong);
    groups.control.all_reduce(most, {.reduce = comm::Reduce::max}).wait();
    return Bytes{most[0].item<int64_t>() - most[1].item<int64_t>()};
  };
  const auto fp32 = besides(train::ComputeType::fp32);
  return {.fp32 = fp32, .bf16 = besides(train::ComputeType::bf16)};
}

}  // namespace shade::plan
