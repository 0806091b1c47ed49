// A record that is dealt to another place of its micro-batch must have the same bits there, in values and gradients.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "shade/base/strings.h"
#include "shade/nn/activated_linear.h"
#include "shade/nn/activations.h"
#include "shade/nn/attention.h"
#include "shade/nn/function.h"
#include "shade/nn/launches.h"
#include "shade/nn/losses.h"
#include "shade/nn/norm.h"
#include "shade/nn/positions.h"
#include "shade/nn/row_product.h"

namespace shade::nn {
namespace {

struct Places {
  int64_t samples, positions, width;
};
// Of odd sizes, that threads can't share evenly; some of them large enough that they do share.
const Places kPlaces[] = {{5, 5, 56}, {5, 7, 33}, {8, 1, 224}, {5, 37, 225}, {5, 131, 129}};

struct Named {
  const char* name;
  std::function<at::Tensor(const Tensors&)> of;  // three inputs [B, T, D]
};

struct EqualSamples {
  EqualSamples(const Places& places, at::ScalarType type) : shape(places) {
    generator = at::make_generator<at::CPUGeneratorImpl>(7);
    parameters.begin_unit("only");
    const auto width = shape.width;
    narrow.emplace(parameters, "narrow", Linear::Options{.in = width, .out = 3, .bias = true});
    wide.emplace(parameters, "wide", Linear::Options{.in = width, .out = 3 * width + 1, .bias = true});
    rms.emplace(parameters, "rms", width, 1e-6);
    layer.emplace(parameters, "layer", width, 1e-6);
    for (auto& weight : parameters.weights()) weight.bind(at::randn(weight.shape(), generator).to(type));
    for (int i = 0; i < 3; ++i)
      inputs.push_back(repeated(at::randn({1, shape.positions, width}, generator).to(type)).set_requires_grad(true));
  }
  at::Tensor repeated(const at::Tensor& one) const {
    auto sizes = one.sizes().vec();
    sizes[0] = shape.samples;
    return one.expand(sizes).contiguous();
  }
  at::Tensor heads(const at::Tensor& x) const {  // two, of even width
    return x.narrow(2, 0, shape.width / 4 * 4).unflatten(2, {2, -1});
  }
  at::Tensor attended(const Tensors& x, AttentionKernel kernel) const {
    const auto table = rope_table({.head_dim = shape.width / 4 * 2}, shape.positions, x[0].options());
    return attention(rotate(heads(x[0]), table), rotate(heads(x[1]), table), heads(x[2]),
                     {.causal = true, .kernel = kernel});
  }
  at::Tensor labels() const { return at::full({shape.samples, shape.positions}, 2, at::kLong); }

  std::vector<Named> all() const {
    return {
        {"silu", [](const Tensors& x) { return silu_activation(x[0]); }},
        {"sigmoid", [](const Tensors& x) { return sigmoid_activation(x[0]); }},
        {"swiglu", [this](const Tensors& x) { return swiglu_linear(*wide, x[0], x[1]); }},
        {"gelu", [this](const Tensors& x) { return gelu_linear(*wide, x[0]); }},
        {"linear to 3", [this](const Tensors& x) { return (*narrow)(x[0]); }},
        {"RMSNorm", [this](const Tensors& x) { return (*rms)(x[0]); }},
        {"LayerNorm", [this](const Tensors& x) { return (*layer)(x[0]); }},
        {"modulated",
         [](const Tensors& x) { return modulated_norm(x[0], x[1].select(1, 0), x[2].select(1, 0), 1e-6); }},
        {"gated", [](const Tensors& x) { return gated_add(x[0], x[1].select(1, 0), x[2]); }},
        {"flash", [this](const Tensors& x) { return attended(x, AttentionKernel::flash); }},
        {"standard", [this](const Tensors& x) { return attended(x, AttentionKernel::standard); }},
        {"text loss",
         [this](const Tensors& x) { return lm_losses(x[0], wide->weight(), parameters.wiring, labels(), {}); }},
        {"class loss",
         [](const Tensors& x) { return class_losses(x[0].select(1, 0), at::ones({x[0].size(0)}, at::kLong)); }},
        {"squared loss", [](const Tensors& x) { return squared_losses(x[0], x[1]); }},
    };
  }

  // The output, the gradients of the inputs.
  Tensors found(const Named& layer_of) {
    for (auto& x : inputs) x.mutable_grad() = at::Tensor();
    const auto y = layer_of.of(inputs);
    auto sizes = y.sizes().vec();
    sizes[0] = 1;
    torch::autograd::backward({y}, {repeated(at::randn(sizes, generator).to(y.scalar_type()))});
    Tensors out{y.detach()};
    for (const auto& x : inputs)
      if (x.grad().defined()) out.push_back(x.grad());
    return out;
  }

  Places shape;
  at::Generator generator;
  Parameters parameters;
  std::optional<Linear> narrow, wide;
  std::optional<RmsNorm> rms;
  std::optional<LayerNorm> layer;
  Tensors inputs;
};

TEST(Places, EqualSamplesAreEqualWhereverTheyStand) {
  if (few_launches(at::empty({0}))) GTEST_SKIP() << "what a CPU does";
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    for (const auto type : {at::kFloat, at::kBFloat16, at::kDouble})
      for (const auto& places : kPlaces) {
        EqualSamples samples(places, type);
        for (const auto& layer : samples.all())
          for (const auto& found : samples.found(layer))
            EXPECT_TRUE(found.equal(found.narrow(0, 0, 1).expand_as(found)))
                << layer.name << " " << at::toString(type) << ", " << places.samples << " x " << places.positions
                << " x " << places.width << ", " << threads << " threads";
      }
  }
  at::set_num_threads(1);
}

TEST(Places, RowsOfAProductAreEqual) {
  if (few_launches(at::empty({0}))) GTEST_SKIP() << "an accelerator has no kernels of MKL";
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    at::manual_seed(1);
    for (const auto type : {at::kFloat, at::kBFloat16})
      for (const int64_t columns : {1, 2, 3, 4, 7, 8, 17, 768})
        for (const int64_t width : {1, 5, 32, 100, 256, 300, 770})
          for (const int64_t rows : {2, 3, 5, 7, 9, 15, 16, 17, 25, 33}) {
            const auto x = at::randn({1, width}).to(type).expand({rows, width}).contiguous();
            const auto w = at::randn({columns, width}).to(type), b = at::randn({columns}).to(type);
            const auto y = row_product(x, w, b);
            EXPECT_TRUE(y.eq(y[0]).all().item<bool>())
                << at::toString(type) << " " << rows << " x " << width << " x " << columns << ", " << threads;
            const double within = type == at::kFloat ? 1e-4 : 0.1;
            EXPECT_TRUE(at::allclose(y, at::linear(x, w, b), within, within));
          }
  }
  at::set_num_threads(1);
}

TEST(Places, MatricesOfAProductAreEqual) {
  if (few_launches(at::empty({0}))) GTEST_SKIP() << "what a CPU does";
  at::manual_seed(1);
  for (const int threads : {2, 3, 5, 7}) {
    at::set_num_threads(threads);
    for (const int64_t samples : {2, 3, 5, 6, 8})
      for (const int64_t rows : {1, 7, 8, 15, 17})
        for (const int64_t columns : {5, 224, 768}) {
          const auto x = at::randn({1, rows, 256}).to(at::kBFloat16).expand({samples, -1, -1}).contiguous();
          const auto y = at::randn({1, 256, columns}).to(at::kBFloat16).expand({samples, -1, -1}).contiguous();
          const auto product = batch_product(x, y);
          EXPECT_TRUE(product.eq(product[0]).all().item<bool>())
              << samples << " of " << rows << " x " << columns << ", " << threads << " threads";
          EXPECT_TRUE(at::allclose(product, at::matmul(x, y), 0.1, 0.1));
        }
  }
  at::set_num_threads(1);
}

TEST(Places, ActivationsAreThoseOfLibtorch) {
  at::set_num_threads(2);
  at::manual_seed(1);
  for (const int64_t size : {0, 1, 63, 64, 65, 40000, 100001}) {
    const auto x = at::randn({2, size}, at::kDouble).t(), g = at::randn({size, 2}, at::kDouble);  // not in order
    EXPECT_TRUE(at::allclose(silu_forward(x), at::silu(x), 1e-12, 1e-12)) << size;
    EXPECT_TRUE(at::allclose(silu_input_grad(g, x), at::silu_backward(g, x), 1e-12, 1e-12)) << size;
    EXPECT_TRUE(at::allclose(swiglu_forward(x, g), at::silu(x) * g, 1e-12, 1e-12)) << size;
    EXPECT_TRUE(at::allclose(gelu_forward(x), at::gelu(x, "tanh"), 1e-12, 1e-12)) << size;
    EXPECT_TRUE(at::allclose(gelu_input_grad(g, x), at::gelu_backward(g, x, "tanh"), 1e-12, 1e-12)) << size;
    const auto y = sigmoid_activation(x);
    EXPECT_TRUE(at::allclose(y, at::sigmoid(x), 1e-12, 1e-12)) << size;
    const auto leaf = x.detach().clone().set_requires_grad(true);
    torch::autograd::backward({sigmoid_activation(leaf)}, {g});
    EXPECT_TRUE(at::allclose(leaf.grad(), at::sigmoid_backward(g, y), 1e-12, 1e-12)) << size;
  }
  at::set_num_threads(1);
}

}  // namespace
}  // namespace shade::nn
