#include "shade/privacy/norms/scale_shift.h"

#include <ATen/ATen.h>

#include "shade/nn/function.h"

namespace shade::privacy {

at::Tensor scale_gradients(const nn::ScaleShiftGrad& grad) {
  return (grad.xhat_BTD.to(nn::wide(grad.g_BTD.scalar_type())) * grad.g_BTD).sum(1);
}

at::Tensor shift_gradients(const nn::ScaleShiftGrad& grad) {
  return grad.g_BTD.sum(1, false, nn::wide(grad.g_BTD.scalar_type()));
}

}  // namespace shade::privacy
