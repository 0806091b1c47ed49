// A projection with an adapter as one function: what base(x) + s B(A(x)) gives, and its gradients.
#include "shade/nn/projection.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "shade/base/error.h"
#include "shade/nn/function.h"
#include "shade/nn/gradients.h"

namespace shade::nn {
namespace {

constexpr int64_t kIn = 10, kOut = 14;

struct Adapted {
  Adapted(at::ScalarType type, bool bias, double alpha = 7)
      : projection(begun(parameters), "p", {.in = kIn, .out = kOut, .bias = bias},
                   LoraOptions{.rank = 3, .alpha = alpha}) {
    at::manual_seed(1);
    for (auto& weight : parameters.weights()) weight.bind(at::randn(weight.shape(), at::kDouble).to(type));
    parameters.wiring.tap = &gradients;
  }
  static Parameters& begun(Parameters& parameters) {
    parameters.begin_unit("unit");
    return parameters;
  }

  Parameters parameters;
  PlainGradients gradients;
  Projection projection;
};

// By autograd, weights as leaves, in fp64.
struct Expected {
  at::Tensor y, dx, da, db;

  Expected(const Adapted& made, const at::Tensor& x, const at::Tensor& g, double scale) {
    std::map<std::string, at::Tensor> leaves;
    for (const auto& weight : made.parameters.weights())
      leaves[weight.name()] = weight.value().to(at::kDouble).set_requires_grad(true);
    const auto input = x.detach().to(at::kDouble).set_requires_grad(true);
    const auto bias = leaves.contains("p.bias") ? leaves["p.bias"] : at::Tensor();
    const auto& down = leaves["p.lora_A.weight"];
    const auto& up = leaves["p.lora_B.weight"];
    y = at::linear(input, leaves["p.weight"], bias) + scale * at::linear(at::linear(input, down), up);
    torch::autograd::backward({y}, {g.to(at::kDouble)});
    dx = input.grad();
    da = down.grad();
    db = up.grad();
  }
};

const Weight& named(const Adapted& made, const std::string& name) {
  for (const auto& weight : made.parameters.weights())
    if (weight.name() == name) return weight;
  throw Error("no weight " + name);
}

double error(const at::Tensor& found, const at::Tensor& expected) {
  return ((found.to(at::kDouble) - expected).norm() / expected.norm()).item<double>();
}

TEST(Projection, WithAnAdapterIsItsDefinition) {
  for (const bool bias : {false, true})
    for (const auto& [type, tolerance] : {std::pair(at::kDouble, 1e-14), {at::kFloat, 1e-6}, {at::kBFloat16, 6e-3}}) {
      Adapted made(type, bias);
      const auto x = at::randn({2, 5, kIn}, at::kDouble).to(type).set_requires_grad(true);
      const auto g = at::randn({2, 5, kOut}, at::kDouble).to(type);
      const Expected expected(made, x, g, 7 / 3.0);
      const auto y = made.projection(x);
      EXPECT_EQ(y.scalar_type(), type);
      torch::autograd::backward({y}, {g});
      EXPECT_LT(error(y.detach(), expected.y.detach()), tolerance) << type;
      EXPECT_LT(error(x.grad(), expected.dx), tolerance) << type;
      EXPECT_LT(error(made.gradients.of(named(made, "p.lora_A.weight")), expected.da), tolerance) << type;
      EXPECT_LT(error(made.gradients.of(named(made, "p.lora_B.weight")), expected.db), tolerance) << type;
      EXPECT_FALSE(made.gradients.written(named(made, "p.weight"))) << "the base is frozen";
    }
}

TEST(Projection, WithAnAdapterHasAPlainForm) {
  Adapted made(at::kDouble, /*bias=*/true);
  const auto x = at::randn({2, 5, kIn}, at::kDouble);
  const auto y = made.projection(x);
  const PlainOperators plain;
  EXPECT_TRUE(at::allclose(made.projection(x), y, 1e-12, 1e-12));
}

TEST(Projection, WithAnAdapterTakesInputsWithoutGradientAndNoSamples) {
  Adapted made(at::kFloat, /*bias=*/false);
  torch::autograd::backward({made.projection(at::randn({2, 5, kIn})).sum()}, {});
  EXPECT_TRUE(made.gradients.written(named(made, "p.lora_A.weight")));
  const auto none = at::empty({0, 5, kIn}).set_requires_grad(true);
  const auto y = made.projection(none);
  EXPECT_EQ(y.sizes(), (at::IntArrayRef{0, 5, kOut}));
  y.sum().backward();
  EXPECT_EQ(none.grad().sizes(), none.sizes());
}

}  // namespace
}  // namespace shade::nn
