// A regression of two layers, private by record, on a data set of its own, computed in bf16.  usage: records RUN RESULT
#include <shade/hash/digest.h>
#include <shade/shade.h>

#include <chrono>
#include <thread>

using namespace shade;

class Squares : public Dataset {
 public:
  int64_t size() const override { return 1500; }
  Batch batch(std::span<const int64_t> records) const override {
    const auto x =
        at::tensor(at::ArrayRef<int64_t>(records.data(), records.size())).to(at::kFloat).unsqueeze(1) / 750 - 1;
    Batch out;
    out.fields = {{"x", at::cat({x, x.square(), x.sin()}, 1)}, {"y", x.square() - x}};
    return out;
  }
  std::string describe() const override { return "squares"; }
  std::string fingerprint() const override { return hash::to_hex(hash::digest_of("squares, 1500")); }
  uint64_t content_of(int64_t record) const override { return static_cast<uint64_t>(record) * 0x9e3779b97f4a7c15u; }
};

struct Regression : Module {
  nn::Linear hidden = add<nn::Linear>("hidden", {.in = 3, .out = 32, .bias = true});
  nn::RmsNorm norm = add<nn::RmsNorm>("norm", 32, 1e-6);
  nn::Linear out = add<nn::Linear>("out", {.in = 32, .out = 1, .bias = true});

  at::Tensor loss(const Batch& batch) override {
    const auto x = batch.field("x").to(at::kBFloat16);
    return nn::squared_losses(out(norm(at::tanh(hidden(x)))), batch.field("y").to(at::kBFloat16));
  }
};

int main(int argc, char** argv) {
  return shade::main(argc, argv, [&](World& world) {
    if (argc != 3) throw UsageError("expected RUN RESULT");
    const Squares records;
    Regression model;
    RunOptions options{.sigma = 0.8, .batch_size = 64, .steps = 24, .micro_batch = 16, .dtype = nn::DType::bf16};
    options.optimizer.lr = 0.01;
    if (world.size() > 1) options.shard = shard::Strategy::zero2;
    options.folder = argv[1];
    options.save_every = 3;
    options.export_folder = argv[2];
    options.noise_seed = 5;  // two runs can be compared; they protect nothing
    Run run(world, model, records, options);
    while (const auto step = run.step()) {
      world.print("step ", run.steps(), " loss ", step->loss);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    world.print(run.privacy());
  });
}
