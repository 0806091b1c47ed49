// A clipping method of one's own: how samples' gradients become one clipped sum. First it is compared with the
// definition (one sample at a time), then it trains.
//
//   own_method        or: shade launch -n 2 -- own_method
//
// The base class has the norms, the coefficients, the sums and the checks that no weight is forgotten or used twice; a
// method says what it keeps of a layer until the norms are known, and in which order it sums.
#include <ATen/core/grad_mode.h>
#include <shade/accounting/calibrate.h>
#include <shade/privacy/clip/layer_norms.h>
#include <shade/proof/check_gradients.h>

#include <set>

#include "sine.h"

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

struct Regression : Module {
  nn::Linear hidden = add<nn::Linear>("hidden", {.in = 4, .out = 48, .bias = true, .init = nn::Init::normal(1)});
  nn::Linear out = add<nn::Linear>("out", {.in = 48, .out = 1, .bias = true, .init = nn::Init::normal(0.1)});

  at::Tensor loss(const Batch& batch) override {
    return nn::squared_losses(out(at::tanh(hidden(batch.field("x")))), batch.field("y"));
  }
};

// A Run trains by methods that a statement of privacy has names for; steps by one's own method are a Job's, which says
// what happens to the records in a privacy event.
int main(int argc, char** argv) {
  return shade::main(argc, argv, [](World& world) {
    const auto keep_all = [](const privacy::MethodSetup& setup) { return std::make_unique<KeepAll>(setup); };
    const auto points = points_of_a_sine();
    const proof::GradientCheck check{.label = "regression",
                                     .make_model = [] { return std::make_unique<Regression>(); },
                                     .records = &points,
                                     .methods = {{"keep_all", keep_all}}};
    for (const auto& row : proof::check_gradients(world, check)) {
      world.print("check ", row.method, ' ', row.strategy, ": difference ", row.max_rel_grad, ", ",
                  row.pass ? "pass" : "FAIL");
      if (!row.pass) throw Error("the method's sums are wrong");
    }

    Regression model;
    privacy::PrivacyEvent event{
        .mechanism = {.sample_rate = 0.05}, .clip_norm = 0.5, .divisor = 200, .steps = 100, .delta = 1e-5};
    event.mechanism.noise_multiplier =
        privacy::calibrate(privacy::Accountant::prv, event.accounted(), /*target_epsilon=*/4, event.delta).sigma;
    train::Job job(world, {.model = &model,
                           .data = &points,
                           .step = {.privacy = event, .method = keep_all},
                           .optimizer = {.lr = 0.02},
                           .shard = {.shard = shard::Strategy::zero3}});  // one rank holds all weights
    while (const auto step = job.step())
      if (job.steps() % 5 == 1)
        world.print("step ", job.steps(), "  loss ", step->loss, "  clipped ", step->samples.clipped, " of ",
                    step->samples.samples);
    world.print("epsilon ", job.spent()->epsilon);
  });
}
