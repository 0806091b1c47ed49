// A weight added to every sample (a learned positional embedding): a sample's gradient is g itself.
#pragma once

#include "shade/nn/tap.h"
#include "shade/privacy/norms/rounding.h"

namespace shade::privacy {

inline at::Tensor added_squares(const nn::AddedGrad& grad) { return squares_of(grad.g_BTD); }

}  // namespace shade::privacy
