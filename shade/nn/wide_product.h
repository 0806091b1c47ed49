// The product of narrow factors with nothing rounded before it is summed.
#pragma once

#include <ATen/core/Tensor.h>

namespace shade::nn {

// out [P, D] = g^T a, of g [N, P] and a [N, D]. Factors in bf16 are multiplied exactly and summed in the type of `out`,
// which is wider (fp32) or the same as theirs.
void wide_product(const at::Tensor& out_PD, const at::Tensor& g_NP, const at::Tensor& a_ND);

}  // namespace shade::nn
