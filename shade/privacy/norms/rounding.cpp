#include "shade/privacy/norms/rounding.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "shade/base/execution.h"
#include "shade/base/parallel.h"
#include "shade/nn/function.h"
#include "shade/nn/launches.h"
#include "shade/privacy/exact_kernels.h"

namespace shade::privacy {
namespace {

// [N, D] -> [N], fp64: each row's sum of squares.
at::Tensor squares_of_rows(const at::Tensor& x_ND) {
  const auto x = x_ND.contiguous();
  const auto rows = x.size(0), width = x.size(1);
  auto out = at::empty({rows}, x.options().dtype(at::kDouble));
  if (x.is_meta()) {
    say_skipped({.name = "squares",
                 .element_size = static_cast<int64_t>(x.element_size()),
                 .read = static_cast<double>(x.nbytes()),
                 .written = static_cast<double>(out.nbytes())});
    return out;
  }
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, x.scalar_type(), "squares", [&] {
    const auto* const from = x.const_data_ptr<scalar_t>();
    auto* const to = out.data_ptr<double>();
    parallel_for(0, rows, 1 + 32768 / std::max<int64_t>(1, width), [&](int64_t begin, int64_t end) {
      for (auto row = begin; row < end; ++row) to[row] = sum_of_squares(from + row * width, width);
    });
  });
  return out;
}

// The same by the device's own kernel.
at::Tensor squares_by_device(const at::Tensor& rows) {
  return at::linalg_vector_norm(rows, 2, {-1}, false, at::kDouble).square_();
}

}  // namespace

double unit_roundoff(at::ScalarType type) { return type == at::kDouble ? 0x1p-53 : 0x1p-24; }

double smallest_normal(at::ScalarType type) { return type == at::kDouble ? 0x1p-1022 : 0x1p-126; }

double gamma_of(int64_t products, at::ScalarType factors) {
  const auto additions = static_cast<double>(products) * (factors == nn::wide(factors) ? 1 : 2);
  const double share = additions * unit_roundoff(factors);
  return share < 0.5 ? share / (1 - share) : std::numeric_limits<double>::infinity();
}

at::Tensor raised(const at::Tensor& squares_B, const at::Tensor& spread_B, double share) {
  return squares_B.clamp_min(0).sqrt_().add_(spread_B, share).square_();
}

at::Tensor row_norms(const at::Tensor& x_BTD) {
  const double vanished = std::sqrt(static_cast<double>(x_BTD.size(2))) * 0x1p-511;
  return squares_of_rows(x_BTD.reshape({-1, x_BTD.size(2)}))
      .sqrt_()
      .add_(vanished)
      .view({x_BTD.size(0), x_BTD.size(1)});
}

at::Tensor spread_of(const at::Tensor& a_BT, int64_t width_in, const at::Tensor& g_BT, int64_t width_out,
                     at::ScalarType type) {
  const double share = 4 * smallest_normal(type) / unit_roundoff(type);
  const double a_least = std::sqrt(static_cast<double>(width_in)), g_least = std::sqrt(static_cast<double>(width_out));
  return (a_BT * g_BT).sum(1).add_(((a_BT + a_least) * (g_BT + g_least)).sum(1), share);
}

at::Tensor spread_of(const at::Tensor& a_BTD, const at::Tensor& g_BTP) {
  const auto type = g_BTP.scalar_type();
  if (!nn::few_launches(g_BTP))
    return spread_of(row_norms(a_BTD), a_BTD.size(2), row_norms(g_BTP), g_BTP.size(2), type);
  // Few operators: (|a_t| + k sqrt(D)) (|g_t| + k sqrt(P)) with k^2 = 4 eta / u is more than is asked for. k is also
  // above what vanishes of squares in the type of the factors; the product may lose digits as the norms do.
  const double least = std::sqrt(4 * smallest_normal(type) / unit_roundoff(type));
  const auto norms = [&](const at::Tensor& x) {
    return at::linalg_vector_norm(x, 2, {-1}).add_(least * std::sqrt(static_cast<double>(x.size(2))));
  };
  return norms(a_BTD).mul_(norms(g_BTP)).sum(1, false, at::kDouble);
}

at::Tensor squares_of(const at::Tensor& gradients_B) {
  constexpr int64_t kRow = 4096;
  const auto flat_BN = gradients_B.flatten(1);
  const bool few = nn::few_launches(flat_BN);
  const auto squares = [&](const at::Tensor& rows) {  // [B, R, D] -> [B]
    if (few) return squares_by_device(rows).sum(1);
    return squares_of_rows(rows.reshape({-1, rows.size(2)})).view({rows.size(0), rows.size(1)}).sum(1);
  };
  const auto size = flat_BN.size(1);
  if (size <= kRow) return squares(flat_BN.unsqueeze(1));
  // On accelerators rows without a rest, if they are not too short: half the operators.
  const auto even = std::gcd(size, kRow);
  const auto row = few && even >= 64 ? even : kRow;
  const auto whole = size / row * row, rest = size - whole;
  auto out = squares(flat_BN.narrow(1, 0, whole).unflatten(1, {whole / row, row}));
  return rest == 0 ? out : out.add_(squares(flat_BN.narrow(1, whole, rest).unsqueeze(1)));
}

}  // namespace shade::privacy
