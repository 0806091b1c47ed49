#include "shade/privacy/clip/two_pass.h"

#include <ATen/ATen.h>

namespace shade::privacy {

std::span<const MethodPass> TwoPass::passes() const {
  static constexpr MethodPass kPasses[] = {{.gradients = false, .last = false}, {.gradients = true, .last = true}};
  return kPasses;
}

at::Tensor TwoPass::objective(const at::Tensor& losses_B, size_t pass) {
  first_ = pass == 0;
  if (first_) return ClippingMethod::objective(losses_B, pass);
  norms_.require_complete();
  count();
  return losses_B.sum();
}

void TwoPass::take(nn::LayerGrad grad) {
  const at::NoGradGuard no_graph;
  if (first_) {
    norms_.admit(grad);
    add_norms(grad, {.algorithm = row_.norm, .tile = options_.tile_size, .workspace = options_.workspace}, norms_);
    return;
  }
  // Each layer's sum is weighed on its own, the gradient passed on is not: groups may differ, a sample that is not
  // finite can be left out, and what is rounded is what the first pass measured.
  add_clipped(grad, coefficients(clipper_.group_of(*weights_of(grad).front())));
}

}  // namespace shade::privacy
