// Norm layers: y = xhat * scale + shift. Each sample's gradients are [D] vectors, cheap to make and to keep.
#pragma once

#include "shade/nn/tap.h"

namespace shade::privacy {

at::Tensor scale_gradients(const nn::ScaleShiftGrad& grad);  // sum over t of xhat_t g_t, [B, D], fp64
at::Tensor shift_gradients(const nn::ScaleShiftGrad& grad);  // sum over t of g_t

}  // namespace shade::privacy
