// A classifier of sequences with a layer of its own, private by user, on records in memory.  usage: users RUN RESULT
#include <shade/shade.h>

#include <chrono>
#include <thread>

using namespace shade;

// Means over positions that a learned score weighs.
nn::OwnLayer::Options pool(int64_t width) {
  return {.weights = {{"score", {width}, nn::Init::normal(1)}},
          .forward = [](const nn::Tensors& in, const nn::Tensors& w) {
            return (in[0] * (in[0] * w[0]).sum(2, /*keepdim=*/true).softmax(1)).sum(1);
          }};
}

struct Tagger : Module {
  nn::Embedding embed = add<nn::Embedding>("embed", {.rows = 64, .width = 16});
  nn::OwnLayer pooled = add<nn::OwnLayer>("pool", pool(16));
  nn::Linear head = add<nn::Linear>("head", {.in = 16, .out = 3, .bias = true});

  at::Tensor loss(const Batch& batch) override {
    return nn::class_losses(head(pooled({embed(batch.field("ids"))})), batch.field("label"));
  }
};

int main(int argc, char** argv) {
  return shade::main(argc, argv, [&](World& world) {
    if (argc != 3) throw UsageError("expected RUN RESULT");
    at::manual_seed(1);
    const auto ids = at::randint(64, {800, 12}, at::kLong);
    std::vector<std::string> names;
    for (int i = 0; i < 800; ++i) names.push_back("user " + std::to_string(i * i % 211));
    const InMemory records({{"ids", ids}, {"label", ids.sum(1).remainder(3)}}, {.users = names});
    Tagger model;
    // The noise has a seed, so that two runs can be compared; they protect nothing.
    Run run(world, model, records,
            {.sigma = 1,
             .clip_norm = 0.5,
             .unit = PrivacyUnit::user,
             .max_records_per_user = 3,
             .batch_size = 30,
             .steps = 24,
             .micro_batch = 4,
             .optimizer = {.lr = 0.02},
             .folder = argv[1],
             .save_every = 3,
             .export_folder = argv[2],
             .noise_seed = 5});
    for (const auto& step : run) {
      world.print("step ", run.steps(), " loss ", step.loss);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    world.print(run.privacy());
  });
}
