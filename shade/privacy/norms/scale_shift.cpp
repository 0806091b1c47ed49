#include "shade/privacy/norms/scale_shift.h"

#include <ATen/ATen.h>

#include "shade/nn/function.h"
#include "shade/privacy/norms/linear.h"
#include "shade/privacy/norms/rounding.h"

namespace shade::privacy {

namespace {

at::Tensor scale_terms(const nn::ScaleShiftGrad& grad) {
  return grad.xhat_BTD.to(nn::wide(grad.g_BTD.scalar_type())) * grad.g_BTD;
}

}  // namespace

at::Tensor scale_gradients(const nn::ScaleShiftGrad& grad) { return scale_terms(grad).sum(1); }

at::Tensor shift_gradients(const nn::ScaleShiftGrad& grad) {
  return grad.g_BTD.sum(1, false, nn::wide(grad.g_BTD.scalar_type()));
}

at::Tensor scale_squares(const nn::ScaleShiftGrad& grad) {
  const auto terms_BTD = scale_terms(grad);
  return raised(squares_of(terms_BTD.sum(1)), row_norms(terms_BTD).sum(1), terms_BTD.scalar_type());
}

at::Tensor shift_squares(const nn::ScaleShiftGrad& grad) { return bias_squares(grad.g_BTD); }

}  // namespace shade::privacy
