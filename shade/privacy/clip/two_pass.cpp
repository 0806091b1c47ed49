#include "shade/privacy/clip/two_pass.h"

#include <ATen/ATen.h>

#include "shade/base/error.h"
#include "shade/nn/launches.h"
#include "shade/privacy/norms/rounding.h"

namespace shade::privacy {
namespace {

// A random mask changes a norm by more than this share, rounding by less.
constexpr double kSameOutput = 1e-6;

}  // namespace

std::span<const MethodPass> TwoPass::passes() const {
  static constexpr MethodPass kPasses[] = {{.gradients = false, .last = false}, {.gradients = true, .last = true}};
  return kPasses;
}

at::Tensor TwoPass::objective(const at::Tensor& losses_B, size_t pass) {
  first_ = pass == 0;
  next_ = 0;
  if (first_) outputs_B_.clear();
  if (first_) return ClippingMethod::objective(losses_B, pass);
  norms_.require_complete();
  count();
  return losses_B.sum();
}

at::Tensor TwoPass::agreed(const nn::Weight& weight, const at::Tensor& agrees_B, const at::Tensor& c_B) const {
  if (nn::few_launches(c_B)) return c_B.masked_fill(agrees_B.logical_not(), 0);
  SHADE_REQUIRE(c_B.is_meta() || agrees_B.logical_or(c_B == 0).all().item<bool>(), "weight ", weight.name(),
                ": the second backward pass of a clipping method gave other gradients than the first, whose norms "
                "don't bound them; a layer draws random numbers in a forward that is computed again. Draw them with "
                "the batch, or use a method of one pass (--dp auto)");
  return c_B;
}

void TwoPass::take(nn::LayerGrad grad) {
  const at::NoGradGuard no_graph;
  const auto& g_B = output_gradient(grad);
  const bool compares = !nn::few_launches(g_B);
  const auto output_B = compares ? squares_of(g_B.unsqueeze(-1)) : at::Tensor();
  if (first_) {
    norms_.admit(grad);
    outputs_B_.push_back(output_B);
    add_norms(grad, {.algorithm = row_.norm, .tile = options_.tile_size, .workspace = options_.workspace}, norms_);
    return;
  }
  // Each layer's sum is weighed on its own, the gradient passed on is not: groups may differ, a sample that is not
  // finite can be left out, and what is rounded is what the first pass measured.
  const auto& weight = *weights_of(grad).front();
  SHADE_REQUIRE(next_ < outputs_B_.size(), "weight ", weight.name(),
                " was reported in the second backward pass alone; a forward must use the same layers each time");
  const auto& before_B = outputs_B_[next_++];
  auto c_B = coefficients(clipper_.group_of(weight));
  if (compares) c_B = agreed(weight, (output_B - before_B).abs() <= before_B * kSameOutput, c_B);
  const auto* own = std::get_if<nn::OwnGrad>(&grad);
  if (own == nullptr || !own->rule->squares().empty()) return add_clipped(grad, c_B);
  for (const auto& each : own_gradients(*own)) {
    const auto bound_B = norms_.by_weight().at(each.weight->id()) * (1 + 1e-9);  // less than half of the margin
    add_clipped(each, agreed(*each.weight, squares_of(each.gradients_B) <= bound_B, c_B));
  }
}

}  // namespace shade::privacy
