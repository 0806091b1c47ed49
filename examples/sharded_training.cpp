// Sharded training with the library: a small Llama, ZeRO-3, AdamW, any number of ranks.
//
//   build/release/bin/shade launch -n 2 -- build/release/examples/sharded_training
#include <cstdio>

#include "shade/comm/job/environment.h"
#include "shade/models/registry.h"
#include "shade/optim/config.h"
#include "shade/train/step.h"

int main() {
  using namespace shade;

  // The world: ranks started by shade launch, torchrun, Slurm or mpirun; or this process alone.
  auto world = comm::World::connect(comm::place_from_environment(), {});

  // The model only declares its weights: nothing is allocated yet.
  const auto model = models::make_model("llama-nano", {.num_layers = 4}, {.task = models::Task::lm});

  // The strategy is data. Each rank holds its part of every unit, and gathers a unit while it is used.
  shard::ShardConfig sharding;
  sharding.shard = shard::Strategy::zero3;
  const auto policy = shard::policy_of(sharding, world.size());
  shard::Runtime runtime(model->parameters(), shard::connect_groups(world, policy), sharding);
  runtime.initialise(/*seed=*/1);  // the same weights for every strategy and world size

  optim::OptimConfig settings;
  settings.lr = 1e-2;
  settings.schedule = optim::Shape::cosine;
  settings.warmup_steps = 2;
  settings.total_steps = 20;
  const auto optimizer = optim::make_optimizer(settings);

  // The step: forward, backward, reductions, update.
  train::Step step(*model, runtime, *optimizer, optim::make_schedule(settings), {.grad_clip = 1.0});
  const auto batch =
      model->synthetic({.samples = 4, .seq_length = 32}, static_cast<uint64_t>(world.rank()), at::kFloat);
  const std::vector<nn::Batch> micro_batches{batch.rows(0, 2), batch.rows(2, 2)};  // gradient accumulation
  for (int i = 0; i < 20; ++i) {
    const auto record = step.run(micro_batches, /*samples=*/4 * world.size());
    if (world.rank() == 0)
      std::printf("step %2d  loss %.4f  gradient norm %.3f  lr %.4f\n", i, record.loss, *record.gradient_norm,
                  record.learning_rate);
  }
  world.leave();
}
