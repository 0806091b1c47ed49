// Private training of one's own model on records in memory: README's program.
//
//   private_training                          one process
//   shade launch -n 2 -- private_training     two ranks, the weights sharded; the same batches
#include <shade/shade.h>

struct Net : shade::Module {
  shade::nn::Linear hidden = add<shade::nn::Linear>("hidden", {.in = 4, .out = 48, .bias = true});
  shade::nn::Linear out = add<shade::nn::Linear>("out", {.in = 48, .out = 2, .bias = true});
  at::Tensor loss(const shade::Batch& batch) override {  // of each record, not averaged
    return shade::nn::class_losses(out(at::tanh(hidden(batch.field("x")))), batch.field("label"));
  }
};

int main(int argc, char** argv) {
  return shade::main(argc, argv, [](shade::World& world) {
    at::manual_seed(1);  // every rank brings the same records
    const auto x = at::randn({4000, 4});
    const shade::InMemory records({{"x", x}, {"label", x.sum(1).gt(0).to(at::kLong)}});
    Net net;
    shade::Run run(world, net, records,
                   {.budget = {{.epsilon = 4, .delta = 1e-5}},
                    .batch_size = 250,
                    .steps = 60,
                    .optimizer = {.lr = 0.02},
                    .folder = "run",
                    .export_folder = "trained"});
    for (const auto& step : run) world.print("step ", run.steps(), "  loss ", step.loss, " (not private)");
    world.print(run.privacy());
  });
}
