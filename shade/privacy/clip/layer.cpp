#include "shade/privacy/clip/layer.h"

#include <ATen/ATen.h>

#include "shade/nn/gradients.h"

namespace shade::privacy {
namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

// An own layer without some samples. Its factors are unknown here, so zeros replace what it makes of them.
class Blanked : public nn::LayerRule {
 public:
  Blanked(std::shared_ptr<const nn::LayerRule> rule, at::Tensor left_out_B)
      : rule_(std::move(rule)), left_out_B_(std::move(left_out_B)) {}

  std::vector<const nn::Weight*> weights() const override { return rule_->weights(); }
  std::vector<at::Tensor> sample_gradients() const override {
    auto out = rule_->sample_gradients();
    for (auto& gradients_B : out) {
      std::vector<int64_t> shape(static_cast<size_t>(gradients_B.dim()), 1);
      shape.front() = -1;
      gradients_B = gradients_B.masked_fill(left_out_B_.view(shape), 0);
    }
    return out;
  }

 private:
  std::shared_ptr<const nn::LayerRule> rule_;
  at::Tensor left_out_B_;
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

nn::LayerGrad blanked(const nn::LayerGrad& grad, const at::Tensor& left_out_B) {
  auto out = grad;
  const auto mask = left_out_B.view({-1, 1, 1});
  const auto blank = [&](auto&... factors) {
    ((factors = factors.defined() ? factors.masked_fill(mask, 0) : factors), ...);
  };
  std::visit(
      Overloaded{[&](nn::LinearGrad& g) { blank(g.a_BTD, g.g_BTP); }, [&](nn::EmbeddingGrad& g) { blank(g.g_BTD); },
                 [&](nn::ScaleShiftGrad& g) { blank(g.xhat_BTD, g.g_BTD); }, [&](nn::AddedGrad& g) { blank(g.g_BTD); },
                 [&](nn::OwnGrad& g) { g.rule = std::make_shared<Blanked>(g.rule, left_out_B); }},
      out);
  return out;
}

std::vector<SampleGradients> own_gradients(const nn::OwnGrad& grad) {
  const auto weights = grad.rule->weights();
  auto gradients = nn::sample_gradients(grad);
  std::vector<SampleGradients> out;
  for (size_t i = 0; i < weights.size(); ++i) out.push_back({std::move(gradients[i]), weights[i]});
  return out;
}

}  // namespace shade::privacy
