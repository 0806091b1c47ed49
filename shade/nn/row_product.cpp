#include "shade/nn/row_product.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <limits>

#include "shade/base/execution.h"
#include "shade/nn/function.h"
#include "shade/nn/kernels.h"
#include "shade/nn/launches.h"

// libtorch's `mm` with an output type of its own exists for accelerators only (2.15), but the MKL inside its CPU
// library has the product, five times as fast as one of widened factors where the CPU multiplies bf16. Weak: null where
// libtorch was built without MKL. Row-major is 101; `Use` has the rest.
extern "C" __attribute__((weak)) void cblas_gemm_bf16bf16f32(int layout, int trans_a, int trans_b, int m, int n, int k,
                                                             float alpha, const void* a, int lda, const void* b,
                                                             int ldb, float beta, float* c, int ldc);

namespace shade::nn {
namespace {

bool narrow_columns(int64_t columns) { return columns > 0 && columns < 4; }

// The shares of threads end within rows of the product.
bool shares_cut_rows(const at::Tensor& x) {
  return x.element_size() < 4 && x.numel() > 0 && x.numel() / x.size(-1) % at::get_num_threads() != 0;
}

// How many more, so that a multiple of `each` is reached.
int64_t missing(int64_t count, int64_t each) { return (each - count % each) % each; }

}  // namespace

bool treats_rows_differently(const at::Tensor& x, int64_t columns) {
  return !few_launches(x) && (narrow_columns(columns) || shares_cut_rows(x));
}

at::Tensor row_product(const at::Tensor& x, const at::Tensor& w_PD, const at::Tensor& b_P) {
  constexpr int64_t kColumns = 8;
  const auto columns = w_PD.size(0);
  if (!treats_rows_differently(x, columns)) return at::linear(x, w_PD, b_P);
  auto rows = x.reshape({-1, x.size(-1)});
  auto w = w_PD, b = b_P;
  const auto count = rows.size(0);
  if (shares_cut_rows(x)) rows = at::constant_pad_nd(rows, {0, 0, 0, missing(count, at::get_num_threads())});
  if (narrow_columns(columns)) {
    w = at::constant_pad_nd(w, {0, 0, 0, kColumns - columns});
    if (b.defined()) b = at::constant_pad_nd(b, {0, kColumns - columns});
  }
  auto shape = x.sizes().vec();
  shape.back() = columns;
  return at::linear(rows, w, b).narrow(0, 0, count).narrow(1, 0, columns).contiguous().view(shape);
}

at::Tensor batch_product(const at::Tensor& x, const at::Tensor& y) {
  const auto count = x.numel() == 0 ? 0 : x.numel() / x.size(-1) / x.size(-2);
  const auto more = missing(count, at::get_num_threads());
  if (few_launches(x) || x.element_size() >= 4 || more == 0) return at::matmul(x, y);
  const auto filled = [&](const at::Tensor& of) {
    return at::constant_pad_nd(of.reshape({-1, of.size(-2), of.size(-1)}), {0, 0, 0, 0, 0, more});
  };
  auto shape = x.sizes().vec();
  shape.back() = y.size(-1);
  return at::bmm(filled(x), filled(y)).narrow(0, 0, count).view(shape);
}

namespace {

// Rows one after another, of numbers one after another, within what MKL counts by.
bool plain_rows(const at::Tensor& x) {
  return x.stride(1) == 1 && x.stride(0) >= x.size(1) && x.stride(0) < std::numeric_limits<int>::max() &&
         x.size(0) < std::numeric_limits<int>::max();
}

// libtorch multiplies narrow numbers of this device into wide ones by itself.
bool has_wide_kernels(const at::Tensor& x) { return !x.is_cpu() && has_kernel("aten::mm", "dtype", x); }

enum Use { as_it_is = 111, transposed = 112 };

// out = a b, or out += a b if `adds`. False: MKL can't.
bool multiplied_by_mkl(const at::Tensor& out, const at::Tensor& a, Use a_is, const at::Tensor& b, bool adds) {
  const auto depth = a.size(a_is == transposed ? 0 : 1);
  if (cblas_gemm_bf16bf16f32 == nullptr || !a.is_cpu() || out.scalar_type() != at::kFloat ||
      a.scalar_type() != at::kBFloat16 || b.scalar_type() != at::kBFloat16 || depth == 0 || out.numel() == 0 ||
      !plain_rows(a) || !plain_rows(b) || !plain_rows(out))
    return false;
  const auto number = [](int64_t value) { return static_cast<int>(value); };
  cblas_gemm_bf16bf16f32(101, a_is, as_it_is, number(out.size(0)), number(out.size(1)), number(depth), 1,
                         a.const_data_ptr(), number(a.stride(0)), b.const_data_ptr(), number(b.stride(0)),
                         adds ? 1.0F : 0.0F, out.mutable_data_ptr<float>(), number(out.stride(0)));
  return true;
}

// On meta: a device multiplies into wide numbers by itself, a CPU by MKL; neither widens the factors first.
bool multiplied_on_meta(const at::Tensor& out, const at::Tensor& a, Use a_is, const at::Tensor& b, bool adds) {
  if (!out.is_meta()) return false;
  const auto inner = a.size(a_is == transposed ? 0 : 1);
  const auto bytes = [](const at::Tensor& t) { return static_cast<double>(t.nbytes()); };
  say_skipped({.name = "mm",
               .element_size = static_cast<int64_t>(a.element_size()),
               .read = bytes(a) + bytes(b) + (adds ? bytes(out) : 0),
               .written = bytes(out),
               .flops = 2 * static_cast<double>(out.numel()) * static_cast<double>(inner),
               .rows = out.size(0),
               .inner = inner,
               .columns = out.size(1)});
  return true;
}

// The same for a product into a new tensor: an accelerator's kernels, which don't widen the factors.
at::Tensor planned_matmul(const at::Tensor& x, const at::Tensor& y, at::ScalarType type) {
  auto shape = x.sizes().vec();
  shape.back() = y.size(-1);
  const auto out = at::empty(shape, x.options().dtype(type));
  say_skipped({.name = "mm",
               .element_size = static_cast<int64_t>(x.element_size()),
               .read = static_cast<double>(x.nbytes() + y.nbytes()),
               .written = static_cast<double>(out.nbytes()),
               .flops = 2 * static_cast<double>(out.numel()) * static_cast<double>(x.size(-1)),
               .rows = x.size(-2),
               .inner = x.size(-1),
               .columns = y.size(-1)});
  return out;
}

}  // namespace

void wide_product(const at::Tensor& out_PD, const at::Tensor& g_NP, const at::Tensor& a_ND) {
  const auto type = out_PD.scalar_type();
  auto out = out_PD;
  if (type == g_NP.scalar_type())
    at::mm_out(out, g_NP.t(), a_ND);
  else if (has_wide_kernels(g_NP))
    at::mm_out(out, g_NP.t(), a_ND, type);
  else if (!multiplied_on_meta(out, g_NP, transposed, a_ND, /*adds=*/false) &&
           !multiplied_by_mkl(out, g_NP, transposed, a_ND, /*adds=*/false))
    at::mm_out(out, g_NP.to(type).t(), a_ND.to(type));
}

void add_wide_product(const at::Tensor& out_ND, const at::Tensor& g_NP, const at::Tensor& w_PD) {
  const auto type = out_ND.scalar_type();
  auto out = out_ND;
  if (type == g_NP.scalar_type())
    out.addmm_(g_NP, w_PD);
  else if (has_wide_kernels(g_NP))
    out.add_(at::mm(g_NP, w_PD, type));
  else if (!multiplied_on_meta(out, g_NP, as_it_is, w_PD, /*adds=*/true) &&
           !multiplied_by_mkl(out, g_NP, as_it_is, w_PD, /*adds=*/true))
    out.addmm_(g_NP.to(type), w_PD.to(type));
}

at::Tensor wide_matmul(const at::Tensor& x, const at::Tensor& y) {
  const auto type = wide(x.scalar_type());
  const bool batch = x.dim() == 3;
  if (type != x.scalar_type() && x.is_meta() && few_launches(x)) return planned_matmul(x, y, type);
  if (type != x.scalar_type() && has_wide_kernels(x)) return batch ? at::bmm(x, y, type) : at::mm(x, y, type);
  return batch ? at::bmm(x.to(type), y.to(type)) : at::mm(x.to(type), y.to(type));
}

}  // namespace shade::nn
