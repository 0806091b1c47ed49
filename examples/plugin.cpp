// Private training inside a shared object, for programs that know nothing of Shade: plugin_host.cpp loads it.
#include <shade/shade.h>

struct Net : shade::Module {
  explicit Net(int64_t inputs) : head(add<shade::nn::Linear>("head", {.in = inputs, .out = 2, .bias = true})) {}
  shade::nn::Linear head;
  at::Tensor loss(const shade::Batch& batch) override {
    return shade::nn::class_losses(head(batch.field("x")), batch.field("label"));
  }
};

// Trains on `rows` records of `columns` numbers, and puts the epsilon that it spent into *epsilon. Returns 0, or the
// exit status of a program that failed; the reason is on standard error.
extern "C" int train_privately(const float* numbers, const int64_t* labels, int64_t rows, int64_t columns,
                               double* epsilon) {
  return shade::main(0, nullptr, [&](shade::World& world) {
    const auto x = at::empty({rows, columns});
    std::copy_n(numbers, rows * columns, x.mutable_data_ptr<float>());
    const auto label = at::empty({rows}, at::kLong);
    std::copy_n(labels, rows, label.mutable_data_ptr<int64_t>());
    const shade::InMemory records({{"x", x}, {"label", label}});  // has a copy
    Net net(columns);
    shade::Run run(world, net, records, {.budget = {{.epsilon = 4, .delta = 1e-4}}, .batch_size = 50, .steps = 20});
    run.finish();
    if (const auto spent = run.spent()) *epsilon = spent->epsilon;  // of rank 0
  });
}
