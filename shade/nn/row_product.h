// Products of rows with a weight or within a sample, in which a row's bits don't depend on its place.
//
// Two kinds of kernels treat rows by their place. MKL's, for products of less than 4 columns: there the weight gets
// rows of zeros. And oneDNN's for bf16, which cut the output into as many equal shares as there are threads: where a
// share ends within a row, it is computed otherwise. There rows of zeros are added, so that each share is of whole
// rows, and to a batch of products whole matrices of them.
#pragma once

#include <ATen/core/Tensor.h>

namespace shade::nn {

// x w^T + b, of w [P, D]; b may be undefined. As libtorch's `linear`, and equal rows of x give equal rows wherever they
// stand.
at::Tensor row_product(const at::Tensor& x, const at::Tensor& w_PD, const at::Tensor& b_P = {});
bool treats_rows_differently(const at::Tensor& x, int64_t columns);  // libtorch's product, of x with so many columns

// x y for each matrix of a batch, [..., M, K] and [..., K, N], as libtorch's `matmul`.
at::Tensor batch_product(const at::Tensor& x, const at::Tensor& y);

// The product of narrow factors with nothing rounded before it is summed.

// out [P, D] = g^T a, of g [N, P] and a [N, D]. Factors in bf16 are multiplied exactly and summed in the type of `out`,
// which is wider (fp32) or the same as theirs.
void wide_product(const at::Tensor& out_PD, const at::Tensor& g_NP, const at::Tensor& a_ND);

// out [N, D] += g w, of g [N, P] and w [P, D], in the same way: a sum over many slices of P is rounded when it is read.
void add_wide_product(const at::Tensor& out_ND, const at::Tensor& g_NP, const at::Tensor& w_PD);

// x y of [M, K] and [K, N], or of [B, M, K] and [B, K, N], in the same way, in fp32 at least. On a CPU narrow factors
// are widened first: who multiplies one of them often widens it once.
at::Tensor wide_matmul(const at::Tensor& x, const at::Tensor& y);

}  // namespace shade::nn
