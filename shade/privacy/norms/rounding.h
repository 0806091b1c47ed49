// What rounding can do to a sample's part in a sum. Norms are raised by it: too large a norm clips a little more, too
// small a one would let a sample move the sum by more than C.
//
// The gradient of a linear weight is a sum of T terms x_t = g_t a_t^T, one per position, which is made twice: for its
// norm, and for the clipped sum. By the standard model of floating-point sums, in whatever order, each is off by at
// most gamma_T sum |x_t| (Higham, Accuracy and Stability of Numerical Algorithms, 3.1 and 3.5), u the unit roundoff of
// the type that is summed in. Where the terms don't cancel that is little; where they do, it can be more than the
// gradient.
#pragma once

#include <ATen/core/Tensor.h>

namespace shade::privacy {

// Half the distance between neighbouring numbers at 1: 2^-24 for fp32 (and bf16, which is summed in fp32), 2^-53.
double unit_roundoff(at::ScalarType type);

// n u / (1 - n u): a sum of n products is off by at most this share of the sum of their absolute values. Of narrow
// factors, products are added in pairs by instructions that round twice: 2 n.
double gamma_of(int64_t products, at::ScalarType factors);

// [B] squares of (norm + share spread), spread [B] = sum over t of |x_t|; all in fp64.
at::Tensor raised(const at::Tensor& squares_B, const at::Tensor& spread_B, double share);

// |x_t| of each row: [B, T, D] -> [B, T], fp64. On accelerators of norms in the type of `x`.
at::Tensor row_norms(const at::Tensor& x_BTD);

// [B] sum over t of |g_t a_t^T| = |g_t| |a_t|, fp64.
at::Tensor spread_of(const at::Tensor& a_BTD, const at::Tensor& g_BTP);

// Squared norms over everything but the sample, fp64: off by less than 1e-11 of it for up to 2^33 elements.
at::Tensor squares_of(const at::Tensor& gradients_B);

}  // namespace shade::privacy
