// What rounding can do to a sample's part in a sum. Norms are raised by it: too large a norm clips a little more, too
// small a one would let a sample move the sum by more than C.
//
// The gradient of a linear weight is a sum of T terms x_t = g_t a_t^T, one per position, which is made twice: for its
// norm, and for the clipped sum. By the standard model of floating-point sums, in whatever order, each is off by at
// most gamma_T sum |x_t| (Higham, Accuracy and Stability of Numerical Algorithms, 3.1 and 3.5), u the unit roundoff of
// the type that is summed in. Where the terms don't cancel that is little; where they do, it can be more than the
// gradient.
//
// That model has no underflow. A product or sum below the smallest normal number eta may be off by up to eta, and some
// instructions take a factor below eta for 0. So a dot product of x and y, of n numbers each, is off by up to
// 2 eta (|x| + sqrt(n)) (|y| + sqrt(n)) more, and the gradient by up to 2 eta W, W = sum over t of
// (|a_t| + sqrt(D)) (|g_t| + sqrt(P)). Ordinary numbers make that 1e-30 of a norm, but |g_t| may be 1e38.
#pragma once

#include <ATen/core/Tensor.h>

namespace shade::privacy {

// Half the distance between neighbouring numbers at 1: 2^-24 for fp32 (and bf16, which is summed in fp32), 2^-53.
double unit_roundoff(at::ScalarType type);

// eta: 2^-126 for fp32 (and bf16, which has the same exponents), 2^-1022.
double smallest_normal(at::ScalarType type);

// n u / (1 - n u): a sum of n products is off by at most this share of the sum of their absolute values. Of narrow
// factors, products are added in pairs by instructions that round twice: 2 n.
double gamma_of(int64_t products, at::ScalarType factors);

// [B] squares of (norm + share spread), spread [B] = sum over t of |x_t|; all in fp64.
at::Tensor raised(const at::Tensor& squares_B, const at::Tensor& spread_B, double share);

// Norms of rows, sqrt(D) 2^-511 added for squares that vanish in fp64: [B, T, D] -> [B, T], fp64. Of the host.
at::Tensor row_norms(const at::Tensor& x_BTD);

// [B] sum over t of |g_t a_t^T| = |g_t| |a_t|, and for underflow 4 eta / u W: 4 eta W or more, times gamma_T. fp64.
at::Tensor spread_of(const at::Tensor& a_BTD, const at::Tensor& g_BTP);
// The same from norms of rows, of D and P numbers of `type`.
at::Tensor spread_of(const at::Tensor& a_BT, int64_t width_in, const at::Tensor& g_BT, int64_t width_out,
                     at::ScalarType type);

// Squared norms over everything but the sample, fp64: off by less than 1e-11 of it for up to 2^33 elements.
at::Tensor squares_of(const at::Tensor& gradients_B);

}  // namespace shade::privacy
