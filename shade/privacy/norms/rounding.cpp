#include "shade/privacy/norms/rounding.h"

#include <ATen/ATen.h>

namespace shade::privacy {

double unit_roundoff(at::ScalarType type) { return type == at::kDouble ? 0x1p-53 : 0x1p-24; }

at::Tensor raised(const at::Tensor& squares_B, const at::Tensor& spread_B, at::ScalarType type, double more) {
  return squares_B.clamp_min(0).sqrt_().add_(spread_B, 4 * unit_roundoff(type) + more).square_();
}

// In its own type libtorch has a fast kernel for this, in bf16 too; the digits that are lost don't matter here.
at::Tensor row_norms(const at::Tensor& x_BTD) { return at::linalg_vector_norm(x_BTD, 2, {-1}).to(at::kDouble); }

}  // namespace shade::privacy
