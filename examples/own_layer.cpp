// A layer of one's own in a private model: a learned exponent for each input, y = w . x^p + b.
//
// The layer is its forward, and gradients of single samples follow from it. What the private gradient of the model is
// by definition is compared with what every clipping method makes of it; then the model is trained by one of them.
//
//   build/release/examples/own_layer
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cstdio>

#include "shade/comm/job/environment.h"
#include "shade/nn/linear.h"
#include "shade/nn/losses.h"
#include "shade/nn/own_layer.h"
#include "shade/nn/unit.h"
#include "shade/proof/check_gradients.h"
#include "shade/train/job.h"

using namespace shade;

constexpr int64_t kWidth = 4;

class Powers : public models::Model {
 public:
  Powers()
      : powers_unit_(parameters_.begin_unit("powers")),
        powers_(parameters_, "powers",
                {.weights = {{"exponent", {kWidth}, nn::Init::constant(1)}},
                 .forward = [](const nn::Tensors& in, const nn::Tensors& w) { return in[0].pow(w[0]); }}),
        head_unit_(parameters_.begin_unit("head")),
        head_(parameters_, "head", {.in = kWidth, .out = 1, .bias = true}) {}

  at::Tensor losses(const nn::Batch& batch) override {
    const auto& wiring = parameters_.wiring;
    auto x = nn::run_unit(wiring, powers_unit_, [this](const nn::Tensors& in) { return powers_(in); }, {batch.x_BD});
    x = nn::run_unit(wiring, head_unit_, [this](const nn::Tensors& in) { return head_(in[0]); }, {x});
    return nn::squared_losses(x, batch.y_BD);  // one per sample
  }

 private:
  nn::UnitId powers_unit_;
  nn::OwnLayer powers_;
  nn::UnitId head_unit_;
  nn::Linear head_;
};

// Samples of y = sum of x^2.
nn::Batch batch_of(int64_t samples, uint64_t seed, at::ScalarType type = at::kFloat) {
  const auto x = at::rand({samples, kWidth}, at::make_generator<at::CPUGeneratorImpl>(seed)) + 0.1;
  nn::Batch batch;
  batch.x_BD = x.to(type);
  batch.y_BD = x.square().sum(1, true).to(type);
  return batch;
}

int main() {
  auto world = comm::World::connect(comm::place_from_environment(), {});
  bool right = true;
  for (const auto& row : proof::check_gradients(
           world,
           {.make_model = [] { return std::make_unique<Powers>(); },
            .batch = [](const models::Model&, nn::DType dtype, int rank,
                        int64_t) { return batch_of(3, static_cast<uint64_t>(rank), nn::scalar_type(dtype)); }})) {
    if (world.rank() == 0)
      std::printf("%-17s %-5s norms differ by %.0e, gradients by %.0e\n", row.method.c_str(), row.strategy.c_str(),
                  row.max_rel_norm, row.max_rel_grad);
    right = right && row.pass;
  }

  // Batches of our own, not drawn by the sampler of a privacy event: so no epsilon may be stated (own_data.cpp has
  // one).
  Powers model;
  train::Job job(world, {.model = &model,
                         .privacy = privacy::PrivacyEvent{.mechanism = {.noise_multiplier = 0.5}, .divisor = 32},
                         .optimizer = {.lr = 0.05},
                         .unaccounted = true});
  for (int i = 0; i < 30; ++i) {
    std::vector batches{batch_of(32 / world.size(), static_cast<uint64_t>(100 + 50 * world.rank() + i))};
    for (int64_t k = 0; k < batches[0].samples(); ++k) batches[0].records.push_back(world.rank() * 32 + k);
    const auto record = job.step(batches);
    if (world.rank() == 0 && i % 10 == 9) std::printf("step %2d  loss %.4f\n", i, record.loss);
  }
  world.leave();
  return right ? 0 : 1;
}
