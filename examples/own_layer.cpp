// A layer of one's own in a private model: Snake, x + sin^2(a x) / a, with a learned a per channel. First its private
// gradients are compared with the definition for every method, then it trains.
//
//   own_layer         or: shade launch -n 2 -- own_layer
#include <shade/proof/check_gradients.h>

#include "sine.h"

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

struct Periodic : Module {
  nn::Linear hidden = add<nn::Linear>("hidden", {.in = 4, .out = 32, .bias = true, .init = nn::Init::normal(1)});
  nn::OwnLayer wave = add<nn::OwnLayer>("snake", snake(32));
  nn::Linear out = add<nn::Linear>("out", {.in = 32, .out = 1, .bias = true, .init = nn::Init::normal(0.1)});

  at::Tensor loss(const Batch& batch) override {
    return nn::squared_losses(out(wave({hidden(batch.field("x"))})), batch.field("y"));
  }
};

int main(int argc, char** argv) {
  return shade::main(argc, argv, [](World& world) {
    const auto points = points_of_a_sine();
    const proof::GradientCheck check{
        .label = "periodic", .make_model = [] { return std::make_unique<Periodic>(); }, .records = &points};
    for (const auto& row : proof::check_gradients(world, check)) {  // all methods, all strategies of this world
      world.print("check ", row.method, ' ', row.strategy, ": difference ", row.max_rel_grad, ", ",
                  row.pass ? "pass" : "FAIL");
      if (!row.pass) throw Error("the layer's gradients are wrong");
    }

    Periodic model;
    Run run(world, model, points,
            {.budget = {{.epsilon = 4, .delta = 1e-5}},
             .clip_norm = 0.5,
             .batch_size = 200,
             .steps = 100,
             .optimizer = {.lr = 0.02}});
    for (const auto& step : run)
      if (run.steps() % 5 == 1) world.print("step ", run.steps(), "  loss ", step.loss);
    world.print(run.privacy());
  });
}
