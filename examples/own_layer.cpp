// A layer of one's own in a private model: Snake, x + sin^2(a x) / a, with a learned a per channel. First its private
// gradients are compared with the definition for every method, then it trains.
//
//   own_layer         or: shade launch -n 2 -- own_layer
#include <cstdio>

#include "points.h"
#include "shade/comm/job/environment.h"
#include "shade/nn/linear.h"
#include "shade/nn/losses.h"
#include "shade/nn/own_layer.h"
#include "shade/nn/unit.h"
#include "shade/privacy/accounting/calibrate.h"
#include "shade/proof/check_gradients.h"
#include "shade/train/step/job.h"

using namespace shade;

// The forward is enough. Each sample's gradient of `a` is here in closed form as well: without it, autograd is run for
// every sample by itself.
nn::OwnLayer::Options snake(int64_t width) {
  return {.weights = {{"a", {width}, nn::Init::constant(1)}},
          .forward = [](const nn::Tensors& in,
                        const nn::Tensors& w) { return in[0] + at::sin(w[0] * in[0]).square() / w[0]; },
          .sample_gradients = [](const nn::Tensors& in, const at::Tensor& g_BD, const nn::Tensors& w) -> nn::Tensors {
            const auto& x = in[0];
            return {g_BD * (x * at::sin(2 * w[0] * x) / w[0] - at::sin(w[0] * x).square() / w[0].square())};
          }};
}

class Periodic : public models::Model {
 public:
  at::Tensor losses(const nn::Batch& batch) override {
    const auto predict = [this](const nn::Tensors& in) { return out_(snake_({hidden_(in[0])})); };
    return nn::squared_losses(nn::run_unit(parameters_.wiring, unit_, predict, {batch.x_BD}), batch.y_BD);
  }

 private:
  nn::UnitId unit_ = parameters_.begin_unit("periodic");
  nn::Linear hidden_{
      parameters_, "hidden", {.in = Points::kInputs, .out = 32, .bias = true, .init = nn::Init::normal(1)}};
  nn::OwnLayer snake_{parameters_, "snake", snake(32)};
  nn::Linear out_{parameters_, "out", {.in = 32, .out = 1, .bias = true, .init = nn::Init::normal(0.1)}};
};

int main() {
  const Points points;
  auto world = comm::World::connect(comm::place_from_environment(), {});

  proof::GradientCheck check{.label = "periodic", .make_model = [] { return std::make_unique<Periodic>(); }};
  check.batch = [&](const models::Model&, nn::DType dtype, int rank, int64_t) {
    const std::vector<int64_t> records{5 * rank + 0, 5 * rank + 1, 5 * rank + 2, 5 * rank + 3};
    return points.batch(records).each([&](const at::Tensor& t) { return t.to(nn::scalar_type(dtype)); });
  };
  for (const auto& row : proof::check_gradients(world, check)) {  // all methods, all strategies of this world
    if (world.rank() == 0)
      std::printf("check %s %s %s: difference %.1e, %s\n", row.method.c_str(), row.strategy.c_str(), row.dtype.c_str(),
                  row.max_rel_grad, row.pass ? "pass" : "FAIL");
    if (!row.pass) return 1;
  }

  Periodic model;
  privacy::PrivacyEvent event{
      .mechanism = {.sample_rate = 0.05}, .clip_norm = 0.5, .divisor = 200, .steps = 100, .delta = 1e-5};
  event.mechanism.noise_multiplier =
      privacy::calibrate(privacy::Accountant::prv, event.accounted(), /*target_epsilon=*/4, event.delta).sigma;
  train::JobOptions options{.model = &model, .data = &points, .step = {.privacy = event}, .batch_size = 200, .seed = 1};
  options.shard.shard = shard::Strategy::zero3;  // each rank holds a part of the weights; one rank holds them all
  options.optimizer.lr = 2e-2;
  train::Job job(world, options);
  while (const auto record = job.step())
    if (world.rank() == 0 && job.steps() % 5 == 1)
      std::printf("step %3d  loss %.4f\n", static_cast<int>(job.steps()), record->loss);
  if (world.rank() == 0) std::printf("epsilon %.3f\n", job.spent()->epsilon);
  world.leave();
}
