// Layers against libtorch's own autograd, in fp64: values, input gradients and weight gradients.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "shade/base/error.h"
#include "shade/nn/activated_linear.h"
#include "shade/nn/embedding.h"
#include "shade/nn/function.h"
#include "shade/nn/gradients.h"
#include "shade/nn/norm.h"
#include "shade/nn/patch.h"
#include "shade/nn/unit.h"

namespace shade::nn {
namespace {

const at::TensorOptions kDouble{at::kDouble};

// A model of one layer: compares `ours` with `theirs`, which gets the weights as leaves in declaration order.
struct Bench {
  Bench() { parameters.begin_unit("only"); }

  void compare(std::vector<at::Tensor> inputs, const std::function<at::Tensor(const Tensors&)>& ours,
               const std::function<at::Tensor(const Tensors&, const Tensors&)>& theirs) {
    bind_all(parameters, kDouble, 3);
    for (auto& weight : parameters.weights()) weight.bind(at::randn(weight.shape(), kDouble));  // no ones, no zeros
    PlainGradients gradients;
    parameters.wiring.tap = &gradients;
    Tensors mine, reference, leaves;
    for (const auto& input : inputs) {
      mine.push_back(input.clone().set_requires_grad(input.is_floating_point()));
      reference.push_back(input.clone().set_requires_grad(input.is_floating_point()));
    }
    for (const auto& weight : parameters.weights()) leaves.push_back(weight.value().clone().set_requires_grad(true));
    const auto a = ours(mine);
    const auto b = theirs(reference, leaves);
    EXPECT_TRUE(at::allclose(a, b, 1e-12, 1e-12)) << "values";
    const auto g = at::randn(a.sizes(), kDouble);
    torch::autograd::backward({a}, {g});
    torch::autograd::backward({b}, {g});
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].is_floating_point()) continue;
      EXPECT_TRUE(at::allclose(mine[i].grad(), reference[i].grad(), 1e-10, 1e-11)) << "gradient of input " << i;
    }
    size_t i = 0;
    for (const auto& weight : parameters.weights())
      EXPECT_TRUE(at::allclose(gradients.of(weight), leaves[i++].grad(), 1e-10, 1e-11)) << weight.name();
  }

  Parameters parameters;
};

TEST(Layers, LinearWithAnyLeadingDims) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{3, 5}, {3, 4, 5}, {3, 2, 4, 5}}) {
    Bench bench;
    const Linear layer(bench.parameters, "l", {.in = 5, .out = 7, .bias = true});
    bench.compare(
        {at::randn(shape, kDouble)}, [&](const Tensors& x) { return layer(x[0]); },
        [](const Tensors& x, const Tensors& w) { return at::linear(x[0], w[0], w[1]); });
  }
}

TEST(Layers, RmsNorm) {
  Bench bench;
  const RmsNorm layer(bench.parameters, "n", 6, 1e-5);
  bench.compare(
      {at::randn({2, 3, 6}, kDouble)}, [&](const Tensors& x) { return layer(x[0]); },
      [](const Tensors& x, const Tensors& w) { return at::rms_norm(x[0], {6}, w[0], 1e-5); });
}

TEST(Layers, LayerNorm) {
  Bench bench;
  const LayerNorm layer(bench.parameters, "n", 6, 1e-5);
  bench.compare(
      {at::randn({2, 3, 6}, kDouble)}, [&](const Tensors& x) { return layer(x[0]); },
      [](const Tensors& x, const Tensors& w) { return at::layer_norm(x[0], {6}, w[0], w[1], 1e-5); });
}

TEST(Layers, ModulatedNormAndGatedAdd) {
  Bench bench;
  bench.compare(
      {at::randn({2, 3, 6}, kDouble), at::randn({2, 6}, kDouble), at::randn({2, 6}, kDouble),
       at::randn({2, 6}, kDouble)},
      [&](const Tensors& x) { return gated_add(x[0], x[3], modulated_norm(x[0], x[1], x[2], 1e-6)); },
      [](const Tensors& x, const Tensors&) {
        const auto y = at::layer_norm(x[0], {6}, {}, {}, 1e-6) * (1 + x[2].unsqueeze(1)) + x[1].unsqueeze(1);
        return x[0] + x[3].unsqueeze(1) * y;
      });
}

TEST(Layers, ActivatedLinears) {
  Bench gelu;
  const Linear second(gelu.parameters, "l", {.in = 5, .out = 4, .bias = true});
  gelu.compare(
      {at::randn({2, 3, 5}, kDouble)}, [&](const Tensors& x) { return gelu_linear(second, x[0]); },
      [](const Tensors& x, const Tensors& w) { return at::linear(at::gelu(x[0], "tanh"), w[0], w[1]); });
  Bench swiglu;
  const Linear down(swiglu.parameters, "l", {.in = 5, .out = 4});
  swiglu.compare(
      {at::randn({2, 3, 5}, kDouble), at::randn({2, 3, 5}, kDouble)},
      [&](const Tensors& x) { return swiglu_linear(down, x[0], x[1]); },
      [](const Tensors& x, const Tensors& w) { return at::linear(at::silu(x[0]) * x[1], w[0]); });
}

TEST(Layers, EmbeddingWithPadding) {
  Bench bench;
  const Embedding layer(bench.parameters, "e", {.rows = 9, .width = 4, .padding = 2});
  const auto ids = at::tensor({1, 2, 2, 8, 1, 0}, at::kLong).view({2, 3});
  bench.compare(
      {ids}, [&](const Tensors& x) { return layer(x[0], anchor()); },
      [](const Tensors& x, const Tensors& w) { return at::embedding(w[0], x[0], 2); });
}

TEST(Layers, PositionsAndPatches) {
  Bench bench;
  const PatchEmbedding patches(bench.parameters, "p", {.channels = 2, .patch = 3, .width = 5});
  const Added positions(bench.parameters, "pos", {6, 5}, Init::normal(1));
  const auto images = at::randn({2, 2, 6, 9}, kDouble);
  bench.compare(
      {}, [&](const Tensors&) { return positions(patches(images, anchor())); },
      [&](const Tensors&, const Tensors& w) {
        return at::conv2d(images, w[0], w[1], {3, 3}).flatten(2).transpose(1, 2) + w[2];
      });
}

TEST(Layers, CheckpointingChangesNothing) {
  Bench bench;
  const Linear first(bench.parameters, "a", {.in = 5, .out = 6});
  const Linear second(bench.parameters, "b", {.in = 6, .out = 4, .bias = true});
  const Block block = [&](const Tensors& x) { return gelu_linear(second, first(x[0]) + x[1]); };
  bench.compare(
      {at::randn({2, 3, 5}, kDouble), at::randn({2, 1, 6}, kDouble)},
      [&](const Tensors& x) { return checkpointed(block, x); },
      [](const Tensors& x, const Tensors& w) {
        return at::linear(at::gelu(at::linear(x[0], w[0]) + x[1], "tanh"), w[1], w[2]);
      });
}

TEST(Layers, AFrozenWeightKeepsNoActivation) {
  Bench bench;
  const Linear layer(bench.parameters, "l", {.in = 5, .out = 7});
  bind_all(bench.parameters, kDouble, 1);
  layer.weight().freeze();
  PlainGradients gradients;
  bench.parameters.wiring.tap = &gradients;
  auto x = at::randn({3, 5}, kDouble).set_requires_grad(true);
  const auto inner = x * 2;
  const auto before = inner.use_count();
  const auto y = layer(inner);
  EXPECT_EQ(inner.use_count(), before) << "nobody holds the input";
  torch::autograd::backward({y.sum()}, {});
  EXPECT_TRUE(x.grad().defined());
  EXPECT_FALSE(gradients.has(layer.weight()));
}

TEST(DroppedLabels, AreDrawnByTheGeneratorAlone) {
  const auto labels = at::arange(20000) % 10;
  const auto drop = [&](double probability, uint64_t seed) {
    return dropped_labels(labels, 10, probability, at::make_generator<at::CPUGeneratorImpl>(seed));
  };
  EXPECT_TRUE(drop(0, 1).equal(labels));
  EXPECT_TRUE((drop(1, 1) == 10).all().item<bool>());
  const auto some = drop(0.1, 1);
  EXPECT_NEAR((some == 10).sum().item<double>() / 20000, 0.1, 0.01);
  EXPECT_TRUE(some.where(some != 10, labels).equal(labels)) << "the others stay";
  EXPECT_TRUE(drop(0.1, 1).equal(some));
  EXPECT_FALSE(drop(0.1, 2).equal(some));
  EXPECT_THROW(drop(1.5, 1), UsageError);
}

TEST(Gradients, AccumulateOverBackwardsAndClear) {
  Bench bench;
  const Linear layer(bench.parameters, "l", {.in = 5, .out = 7});
  bind_all(bench.parameters, kDouble, 1);
  PlainGradients gradients;
  bench.parameters.wiring.tap = &gradients;
  const auto x = at::randn({3, 5}, kDouble);
  const auto run = [&] { torch::autograd::backward({layer(x).sum()}, {}); };
  run();
  const auto once = gradients.of(layer.weight()).clone();
  run();
  EXPECT_TRUE(at::allclose(gradients.of(layer.weight()), 2 * once));
  gradients.clear();
  EXPECT_THROW(gradients.of(layer.weight()), Error);
  run();
  EXPECT_TRUE(at::allclose(gradients.of(layer.weight()), once)) << "the first contribution is written, not added";
}

}  // namespace
}  // namespace shade::nn
