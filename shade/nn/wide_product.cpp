#include "shade/nn/wide_product.h"

#include <ATen/ATen.h>

#include <limits>

// libtorch's `mm` with an output type of its own exists for GPUs only (2.15), but the MKL inside its CPU library has
// the product, five times as fast as one of widened factors where the CPU multiplies bf16. Weak: null where libtorch
// was built without MKL. Row-major is 101, as it is 111, transposed 112.
extern "C" __attribute__((weak)) void cblas_gemm_bf16bf16f32(int layout, int trans_a, int trans_b, int m, int n, int k,
                                                             float alpha, const void* a, int lda, const void* b,
                                                             int ldb, float beta, float* c, int ldc);

namespace shade::nn {
namespace {

// Rows one after another, of numbers one after another, within what MKL counts by.
bool plain_rows(const at::Tensor& x) {
  return x.stride(1) == 1 && x.stride(0) >= x.size(1) && x.stride(0) < std::numeric_limits<int>::max() &&
         x.size(0) < std::numeric_limits<int>::max();
}

}  // namespace

void wide_product(const at::Tensor& out_PD, const at::Tensor& g_NP, const at::Tensor& a_ND) {
  const auto type = out_PD.scalar_type();
  auto out = out_PD;
  if (type == g_NP.scalar_type()) {
    at::mm_out(out, g_NP.t(), a_ND);
  } else if (g_NP.is_cuda()) {
    out.copy_(at::mm(g_NP.t(), a_ND, type));
  } else if (cblas_gemm_bf16bf16f32 != nullptr && g_NP.is_cpu() && type == at::kFloat &&
             g_NP.scalar_type() == at::kBFloat16 && a_ND.scalar_type() == at::kBFloat16 && g_NP.size(0) > 0 &&
             plain_rows(g_NP) && plain_rows(a_ND) && plain_rows(out)) {
    const auto number = [](int64_t value) { return static_cast<int>(value); };
    cblas_gemm_bf16bf16f32(101, 112, 111, number(out.size(0)), number(out.size(1)), number(g_NP.size(0)), 1,
                           g_NP.const_data_ptr(), number(g_NP.stride(0)), a_ND.const_data_ptr(), number(a_ND.stride(0)),
                           0, out.mutable_data_ptr<float>(), number(out.stride(0)));
  } else {
    at::mm_out(out, g_NP.to(type).t(), a_ND.to(type));
  }
}

}  // namespace shade::nn
