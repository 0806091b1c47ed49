// Private regression with a model of one's own: weights, losses, and a job that spends at most epsilon 4.
//
//   private_regression                              one process
//   shade launch -n 2 -- private_regression         two ranks; the same batches, sharded
#include <cstdio>

#include "points.h"
#include "shade/comm/job/environment.h"
#include "shade/nn/linear.h"
#include "shade/nn/losses.h"
#include "shade/nn/unit.h"
#include "shade/privacy/accounting/calibrate.h"
#include "shade/train/step/job.h"

using namespace shade;

// A model declares weights, unit by unit (a unit is what is gathered at once), and says each sample's loss.
class Regression : public models::Model {
 public:
  at::Tensor losses(const nn::Batch& batch) override {
    const auto predict = [this](const nn::Tensors& in) { return out_(at::tanh(hidden_(in[0]))); };
    const auto predicted = nn::run_unit(parameters_.wiring, unit_, predict, {batch.x_BD});
    return nn::squared_losses(predicted, batch.y_BD);  // [B]: not averaged
  }

 private:
  nn::UnitId unit_ = parameters_.begin_unit("regression");
  nn::Linear hidden_{
      parameters_, "hidden", {.in = Points::kInputs, .out = 48, .bias = true, .init = nn::Init::normal(1)}};
  nn::Linear out_{parameters_, "out", {.in = 48, .out = 1, .bias = true, .init = nn::Init::normal(0.1)}};
};

int main() {
  // The world: ranks started by shade launch, torchrun, Slurm or mpirun; or this process alone.
  auto world = comm::World::connect(comm::place_from_environment(), {});
  const Points points;
  Regression model;

  // What happens to the records, said once: the sampler, the noise and the accountant all follow from it.
  privacy::PrivacyEvent event{.mechanism = {.sample_rate = 250.0 / static_cast<double>(points.size())},
                              .clip_norm = 0.5,
                              .divisor = 250,  // public: the expected batch
                              .steps = 200,
                              .delta = 1e-5};
  event.mechanism.noise_multiplier =
      privacy::calibrate(privacy::Accountant::prv, event.accounted(), /*target_epsilon=*/4, event.delta).sigma;

  train::JobOptions options{.model = &model, .data = &points, .step = {.privacy = event}, .batch_size = 250, .seed = 1};
  options.shard.shard = shard::Strategy::zero3;  // each rank holds a part of the weights; one rank holds them all
  options.optimizer.lr = 2e-2;
  options.optimizer.weight_decay = 0;
  train::Job job(world, options);
  while (const auto record = job.step())
    if (world.rank() == 0 && job.steps() % 10 == 1)  // the loss itself is not private: these points need no protection
      std::printf("step %3d  loss %.4f\n", static_cast<int>(job.steps()), record->loss);
  if (const auto spent = job.spent(); spent && world.rank() == 0)
    std::printf("epsilon %.3f at delta %g\n", spent->epsilon, spent->delta);
  world.leave();
}
