// What rounding can do to a sample's part in a sum. Norms are raised by it: too large a norm clips a little more, too
// small a one would let a sample move the sum by more than C.
//
// A sample's gradient is a sum of T terms x_t, one per position. Its norm and the clipped sum add them in different
// orders, so they differ by up to about 4 u sum |x_t|, u the unit roundoff of the type that is summed in. Where the
// terms don't cancel that is nothing; where they do, it can be many times the margin that the clipper keeps.
#pragma once

#include <ATen/core/Tensor.h>

namespace shade::privacy {

// Half the distance between neighbouring numbers at 1: 2^-24 for fp32 (and bf16, which is summed in fp32), 2^-53.
double unit_roundoff(at::ScalarType type);

// [B] squares of (norm + (4 u + more) spread), spread [B] = sum over t of |x_t|; all in fp64.
at::Tensor raised(const at::Tensor& squares_B, const at::Tensor& spread_B, at::ScalarType type, double more = 0);

// |x_t| of each row: [B, T, D] -> [B, T], fp64 of norms in the type of `x`.
at::Tensor row_norms(const at::Tensor& x_BTD);

}  // namespace shade::privacy
