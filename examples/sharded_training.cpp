// Sharded training with the library: a small Llama, ZeRO-3, AdamW, any number of ranks.
//
//   build/release/bin/shade launch -n 2 -- build/release/examples/sharded_training
#include <cstdio>

#include "shade/comm/job/environment.h"
#include "shade/models/registry.h"
#include "shade/train/job.h"

int main() {
  using namespace shade;

  // The world: ranks started by shade launch, torchrun, Slurm or mpirun; or this process alone.
  auto world = comm::World::connect(comm::place_from_environment(), {});

  // The model only declares its weights: nothing is allocated yet.
  const auto model = models::make_model("llama-nano", {.num_layers = 4}, {.task = models::Task::lm});

  // The job puts it together. The strategy is data: each rank holds its part of every unit, and gathers a unit while
  // it is used; the first weights are the same for every strategy and world size.
  train::JobOptions options{.model = model.get(), .seed = 1, .gradient_norm = true};
  options.shard.shard = shard::Strategy::zero3;
  options.optimizer.lr = 1e-2;
  options.optimizer.schedule = optim::Shape::cosine;
  options.optimizer.warmup_steps = 2;
  options.optimizer.total_steps = 20;
  options.optimizer.grad_clip = 1.0;
  train::Job job(world, options);

  // Batches of one's own; with JobOptions::data the job draws and deals records by itself.
  const auto batch =
      model->synthetic({.samples = 4, .seq_length = 32}, static_cast<uint64_t>(world.rank()), at::kFloat);
  const std::vector<nn::Batch> micro_batches{batch.rows(0, 2), batch.rows(2, 2)};  // gradient accumulation
  for (int i = 0; i < 20; ++i) {
    const auto record = job.step(micro_batches);  // forward, backward, reductions, update
    if (world.rank() == 0)
      std::printf("step %2d  loss %.4f  gradient norm %.3f  lr %.4f\n", i, record.loss, *record.gradient_norm,
                  record.learning_rate);
  }
  world.leave();
}
