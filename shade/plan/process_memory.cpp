#include "shade/plan/process_memory.h"

#include <ATen/ATen.h>

#include "shade/measure/experiment_job.h"
#include "shade/measure/feed.h"
#include "shade/profile/memory.h"

namespace shade::plan {

Bytes beside_tensors(comm::World& world, train::ComputeType type) {
  measure::Experiment experiment;
  experiment.bench.model = "llama3-8b";
  experiment.bench.dtype = type;
  experiment.bench.seq_length = 128;
  experiment.sizes = {.hidden_dim = 256, .num_layers = 2, .num_heads = 4, .num_kv_heads = 2, .ffn_dim = 768};
  experiment.sizes.vocab_size = 512;
  profile::TensorMemory::track();
  const auto before = profile::TensorMemory::current();
  profile::TensorMemory::reset_peak();
  {
    const auto model = models::make_model(experiment.bench.model, experiment.sizes, experiment.bench.options());
    measure::Feed feed(experiment, *model, world.place(), world.device());
    auto options = measure::job_options(experiment, *model, world.size());
    options.device = world.device();
    train::Job job(world, std::move(options));
    for (int step = 0; step < 2; ++step) job.step(feed.next());
  }
  const auto tensors = profile::TensorMemory::peak().count - before.count;
  auto most = at::tensor(std::vector<int64_t>{profile::process_memory().peak_resident.count - tensors}, at::kLong);
  world.control(text("process/", to_string(type))).all_reduce(most, {.reduce = comm::Reduce::max}).wait();
  return {most.item<int64_t>()};
}

}  // namespace shade::plan
