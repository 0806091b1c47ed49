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

}  // namespace shade::nn
