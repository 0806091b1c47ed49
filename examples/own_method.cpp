// A clipping method of one's own: how samples' gradients become one clipped sum. First it is compared with the
// definition (one sample at a time), then it trains.
//
//   own_method        or: shade launch -n 2 -- own_method
//
// The base class has the norms, the coefficients, the sums and the checks that no weight is forgotten or used twice; a
// method says what it keeps of a layer until the norms are known, and in which order it sums.
#include <cstdio>
#include <set>

#include "points.h"
#include "shade/comm/job/environment.h"
#include "shade/nn/linear.h"
#include "shade/nn/losses.h"
#include "shade/nn/unit.h"
#include "shade/privacy/accounting/calibrate.h"
#include "shade/privacy/clip/layer_norms.h"
#include "shade/proof/check_gradients.h"
#include "shade/train/step/job.h"

using namespace shade;

// Keeps each layer's activations and output gradients, and sums when backward has passed all layers. Of a layer of
// one's own (own_layer.cpp) it would keep privacy::own_gradients(grad) instead: weights are gone when finish() runs.
class KeepAll : public privacy::ClippingMethod {
 public:
  explicit KeepAll(const privacy::MethodSetup& setup) : ClippingMethod(setup) {}

  // One walk over the graph; gradients are complete when finish() says so.
  std::span<const privacy::MethodPass> passes() const override {
    static constexpr privacy::MethodPass kPasses[] = {{.gradients = false, .last = true}};
    return kPasses;
  }

  void take(nn::LayerGrad grad) override {  // during backward, from every layer
    const at::NoGradGuard no_graph;
    norms_.admit(grad);
    privacy::add_norms(grad, {}, norms_);
    kept_.push_back(std::move(grad));
  }

  void finish() override {
    const at::NoGradGuard no_graph;
    norms_.require_complete();
    count();
    std::set<const nn::Weight*> weights;
    for (const auto& grad : kept_) {
      add_clipped(grad, coefficients(/*group=*/0));
      for (const auto* weight : privacy::weights_of(grad)) weights.insert(weight);
    }
    for (const auto* weight : weights) sink_->complete(*weight);  // from here it may be reduced over ranks
    kept_.clear();
  }

 private:
  std::vector<nn::LayerGrad> kept_;
};

class Regression : public models::Model {
 public:
  at::Tensor losses(const nn::Batch& batch) override {
    const auto predict = [this](const nn::Tensors& in) { return out_(at::tanh(hidden_(in[0]))); };
    return nn::squared_losses(nn::run_unit(parameters_.wiring, unit_, predict, {batch.x_BD}), batch.y_BD);
  }

 private:
  nn::UnitId unit_ = parameters_.begin_unit("regression");
  nn::Linear hidden_{
      parameters_, "hidden", {.in = Points::kInputs, .out = 48, .bias = true, .init = nn::Init::normal(1)}};
  nn::Linear out_{parameters_, "out", {.in = 48, .out = 1, .bias = true, .init = nn::Init::normal(0.1)}};
};

int main() {
  const privacy::MakeMethod keep_all = [](const privacy::MethodSetup& setup) {
    return std::make_unique<KeepAll>(setup);
  };
  const Points points;

  auto world = comm::World::connect(comm::place_from_environment(), {});
  proof::GradientCheck check{.label = "regression", .make_model = [] { return std::make_unique<Regression>(); }};
  check.batch = [&](const models::Model&, nn::DType dtype, int rank, int64_t) {
    const std::vector<int64_t> records{5 * rank + 0, 5 * rank + 1, 5 * rank + 2, 5 * rank + 3};
    return points.batch(records).each([&](const at::Tensor& t) { return t.to(nn::scalar_type(dtype)); });
  };
  check.methods = {{"keep_all", keep_all}};
  for (const auto& row : proof::check_gradients(world, check)) {
    if (world.rank() == 0)
      std::printf("check %s %s %s: difference %.1e, %s\n", row.method.c_str(), row.strategy.c_str(), row.dtype.c_str(),
                  row.max_rel_grad, row.pass ? "pass" : "FAIL");
    if (!row.pass) return 1;
  }

  Regression model;
  privacy::PrivacyEvent event{
      .mechanism = {.sample_rate = 0.05}, .clip_norm = 0.5, .divisor = 200, .steps = 100, .delta = 1e-5};
  event.mechanism.noise_multiplier =
      privacy::calibrate(privacy::Accountant::prv, event.accounted(), /*target_epsilon=*/4, event.delta).sigma;
  train::JobOptions options{
      .model = &model, .data = &points, .step = {.privacy = event, .method = keep_all}, .batch_size = 200, .seed = 1};
  options.shard.shard = shard::Strategy::zero3;  // each rank holds a part of the weights; one rank holds them all
  options.optimizer.lr = 2e-2;
  train::Job job(world, options);
  while (const auto record = job.step())
    if (world.rank() == 0 && job.steps() % 5 == 1)
      std::printf("step %3d  loss %.4f  clipped %d of %d\n", static_cast<int>(job.steps()), record->loss,
                  static_cast<int>(record->samples.clipped), static_cast<int>(record->samples.samples));
  if (world.rank() == 0) std::printf("epsilon %.3f\n", job.spent()->epsilon);
  world.leave();
}
