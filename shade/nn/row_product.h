// Products of rows with a weight, in which a row's bits don't depend on its place.
#pragma once

#include <ATen/core/Tensor.h>

namespace shade::nn {

// x w^T + b, of w [P, D]; b may be undefined. As libtorch's `linear`, and equal rows of x give equal rows wherever they
// stand. MKL's kernels for products of less than 4 columns treat rows differently: there the weight gets rows of zeros.
at::Tensor row_product(const at::Tensor& x, const at::Tensor& w_PD, const at::Tensor& b_P = {});
bool treats_rows_differently(const at::Tensor& x, int64_t columns);  // libtorch's product, of x with so many columns

}  // namespace shade::nn
