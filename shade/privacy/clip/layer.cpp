#include "shade/privacy/clip/layer.h"

#include <ATen/ATen.h>

namespace shade::privacy {
namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

}  // namespace

std::vector<const nn::Weight*> weights_of(const nn::LayerGrad& grad) {
  auto all = std::visit(Overloaded{[](const nn::LinearGrad& g) { return std::vector{g.weight, g.bias}; },
                                   [](const nn::EmbeddingGrad& g) { return std::vector{g.table}; },
                                   [](const nn::ScaleShiftGrad& g) { return std::vector{g.scale, g.shift}; },
                                   [](const nn::AddedGrad& g) { return std::vector{g.added}; }},
                        grad);
  std::erase(all, nullptr);
  return all;
}

const at::Tensor& output_gradient(const nn::LayerGrad& grad) {
  return std::visit(Overloaded{[](const nn::LinearGrad& g) -> const at::Tensor& { return g.g_BTP; },
                               [](const auto& g) -> const at::Tensor& { return g.g_BTD; }},
                    grad);
}

nn::LayerGrad selected(const nn::LayerGrad& grad, const at::Tensor& samples) {
  auto out = grad;
  const auto pick = [&](auto&... tensors) {
    ((tensors = tensors.defined() ? tensors.index_select(0, samples) : tensors), ...);
  };
  std::visit(
      Overloaded{[&](nn::LinearGrad& g) { pick(g.a_BTD, g.g_BTP); },
                 [&](nn::EmbeddingGrad& g) { pick(g.ids_BT, g.g_BTD); },
                 [&](nn::ScaleShiftGrad& g) { pick(g.xhat_BTD, g.g_BTD); }, [&](nn::AddedGrad& g) { pick(g.g_BTD); }},
      out);
  return out;
}

}  // namespace shade::privacy
