// Norm layers: y = xhat * scale + shift. Each sample's gradients are [D] vectors, cheap to make and to keep.
#pragma once

#include "shade/nn/tap.h"

namespace shade::privacy {

at::Tensor scale_gradients(const nn::ScaleShiftGrad& grad);  // sum over t of xhat_t g_t, [B, D], fp32 at least
at::Tensor shift_gradients(const nn::ScaleShiftGrad& grad);  // sum over t of g_t

// Squared norms of the two where they are not kept but summed anew: [B], fp64, a bound as those of linear layers.
at::Tensor scale_squares(const nn::ScaleShiftGrad& grad);
at::Tensor shift_squares(const nn::ScaleShiftGrad& grad);

}  // namespace shade::privacy
