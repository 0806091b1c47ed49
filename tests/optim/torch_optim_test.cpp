// The same path as libtorch's own optimizers.
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "shade/optim/adamw.h"
#include "shade/optim/sgd.h"

namespace shade::optim {
namespace {

void expect_same_path(Optimizer& ours, torch::optim::Optimizer& theirs, const at::Tensor& leaf) {
  Slot slot{.name = "w", .master = leaf.detach().clone()};
  for (int t = 0; t < 20; ++t) {
    const auto gradient = at::randn(leaf.sizes());
    slot.gradient = gradient * 32;
    leaf.mutable_grad() = gradient.clone();
    ours.step({&slot, 1}, 0.01, 1 / 32.0);
    theirs.step();
  }
  EXPECT_TRUE(at::allclose(slot.master, leaf.detach(), 1e-6, 1e-6))
      << (slot.master - leaf.detach()).abs().max().item<double>();
}

TEST(TorchOptim, AdamW) {
  at::manual_seed(7);
  const auto leaf = at::randn(777).set_requires_grad(true);
  torch::optim::AdamW theirs(std::vector{leaf}, torch::optim::AdamWOptions(0.01).weight_decay(0.1));
  expect_same_path(*make_adamw({.weight_decay = 0.1}), theirs, leaf);
}

TEST(TorchOptim, Sgd) {
  at::manual_seed(7);
  for (const bool nesterov : {false, true}) {
    const auto leaf = at::randn(777).set_requires_grad(true);
    torch::optim::SGD theirs(std::vector{leaf},
                             torch::optim::SGDOptions(0.01).momentum(0.9).nesterov(nesterov).weight_decay(0.1));
    expect_same_path(*make_sgd({.momentum = 0.9, .nesterov = nesterov, .weight_decay = 0.1}), theirs, leaf);
  }
}

}  // namespace
}  // namespace shade::optim
