#include "shade/privacy/norms/scale_shift.h"

#include "shade/privacy/norms/position_sums.h"

namespace shade::privacy {

at::Tensor scale_gradients(const nn::ScaleShiftGrad& grad) { return position_sums(grad.g_BTD, grad.xhat_BTD); }

at::Tensor shift_gradients(const nn::ScaleShiftGrad& grad) { return position_sums(grad.g_BTD); }

}  // namespace shade::privacy
