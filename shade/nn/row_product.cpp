#include "shade/nn/row_product.h"

#include <ATen/ATen.h>

#include "shade/nn/launches.h"

namespace shade::nn {

bool treats_rows_differently(const at::Tensor& x, int64_t columns) {
  constexpr int64_t kNarrow = 4;
  return columns > 0 && columns < kNarrow && !few_launches(x);
}

at::Tensor row_product(const at::Tensor& x, const at::Tensor& w_PD, const at::Tensor& b_P) {
  constexpr int64_t kColumns = 8;
  const auto columns = w_PD.size(0);
  if (!treats_rows_differently(x, columns)) return at::linear(x, w_PD, b_P);
  const auto more = kColumns - columns;
  const auto w = at::constant_pad_nd(w_PD, {0, 0, 0, more});
  const auto b = b_P.defined() ? at::constant_pad_nd(b_P, {0, more}) : b_P;
  return at::linear(x, w, b).narrow(-1, 0, columns).contiguous();
}

}  // namespace shade::nn
