#include "shade/privacy/clip/layer.h"

#include <ATen/ATen.h>

#include "shade/nn/gradients.h"

namespace shade::privacy {
namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

// An own layer's gradients once they are made.
class Made : public nn::LayerRule {
 public:
  explicit Made(const nn::OwnGrad& grad) : weights_(grad.rule->weights()), gradients_(nn::sample_gradients(grad)) {}

  std::vector<const nn::Weight*> weights() const override { return weights_; }
  std::vector<at::Tensor> sample_gradients() const override { return gradients_; }

 private:
  std::vector<const nn::Weight*> weights_;
  std::vector<at::Tensor> gradients_;
};

}  // namespace

nn::LayerGrad keepable(nn::LayerGrad grad) {
  if (auto* own = std::get_if<nn::OwnGrad>(&grad)) own->rule = std::make_shared<Made>(*own);
  return grad;
}

std::vector<const nn::Weight*> weights_of(const nn::LayerGrad& grad) {
  auto all = std::visit(Overloaded{[](const nn::LinearGrad& g) { return std::vector{g.weight, g.bias}; },
                                   [](const nn::EmbeddingGrad& g) { return std::vector{g.table}; },
                                   [](const nn::ScaleShiftGrad& g) { return std::vector{g.scale, g.shift}; },
                                   [](const nn::AddedGrad& g) { return std::vector{g.added}; },
                                   [](const nn::OwnGrad& g) { return g.rule->weights(); }},
                        grad);
  std::erase(all, nullptr);
  return all;
}

const at::Tensor& output_gradient(const nn::LayerGrad& grad) {
  return std::visit(Overloaded{[](const nn::LinearGrad& g) -> const at::Tensor& { return g.g_BTP; },
                               [](const nn::OwnGrad& g) -> const at::Tensor& { return g.g_B; },
                               [](const auto& g) -> const at::Tensor& { return g.g_BTD; }},
                    grad);
}

std::vector<SampleGradients> own_gradients(const nn::OwnGrad& grad) {
  const auto weights = grad.rule->weights();
  auto gradients = nn::sample_gradients(grad);
  std::vector<SampleGradients> out;
  for (size_t i = 0; i < weights.size(); ++i) out.push_back({std::move(gradients[i]), weights[i]});
  return out;
}

}  // namespace shade::privacy
