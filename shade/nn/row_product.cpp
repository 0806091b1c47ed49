#include "shade/nn/row_product.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "shade/nn/launches.h"

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

}  // namespace shade::nn
