// The product of narrow factors with nothing rounded before it is summed.
#pragma once

#include <ATen/core/Tensor.h>

namespace shade::nn {

// out [P, D] = g^T a, of g [N, P] and a [N, D]. Factors in bf16 are multiplied exactly and summed in the type of `out`,
// which is wider (fp32) or the same as theirs.
void wide_product(const at::Tensor& out_PD, const at::Tensor& g_NP, const at::Tensor& a_ND);

// out [N, D] += g w, of g [N, P] and w [P, D], in the same way: a sum over many slices of P is rounded when it is read.
void add_wide_product(const at::Tensor& out_ND, const at::Tensor& g_NP, const at::Tensor& w_PD);

// x y of [M, K] and [K, N], or of [B, M, K] and [B, K, N], in the same way, in fp32 at least. On a CPU narrow factors
// are widened first: who multiplies one of them often widens it once.
at::Tensor wide_matmul(const at::Tensor& x, const at::Tensor& y);

}  // namespace shade::nn
