#include "shade/privacy/norms/position_sums.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>

#include <algorithm>
#include <numeric>

#include "shade/base/execution.h"
#include "shade/base/parallel.h"
#include "shade/nn/launches.h"
#include "shade/privacy/exact_kernels.h"

namespace shade::privacy {
namespace {

constexpr int64_t kColumns = 1024;  // at a time: their sums stay in the nearest cache

at::Tensor sums_on_host(const at::Tensor& x_BTD, const at::Tensor& y_BTD) {
  const auto x = x_BTD.contiguous(), y = y_BTD.defined() ? y_BTD.to(x.scalar_type()).contiguous() : at::Tensor();
  const auto samples = x.size(0), positions = x.size(1), width = x.size(2);
  auto out = at::zeros({samples, width}, x.options().dtype(at::kDouble));
  if (x.is_meta()) {
    say_skipped({.name = "position sums",
                 .element_size = static_cast<int64_t>(x.element_size()),
                 .read = static_cast<double>(x.nbytes() * (y.defined() ? 2 : 1)),
                 .written = static_cast<double>(out.nbytes())});
    return out;
  }
  const auto blocks = (width + kColumns - 1) / kColumns;
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, x.scalar_type(), "position sums", [&] {
    const auto* first = x.const_data_ptr<scalar_t>();
    const auto* second = y.defined() ? y.const_data_ptr<scalar_t>() : nullptr;
    auto* sums = out.data_ptr<double>();
    parallel_for(0, samples * blocks, 1 + 65536 / std::max<int64_t>(1, positions * std::min(width, kColumns)),
                 [&](int64_t from, int64_t to) {
                   for (int64_t i = from; i < to; ++i) {
                     const auto b = i / blocks, column = i % blocks * kColumns;
                     const auto count = std::min(kColumns, width - column);
                     for (int64_t t = 0; t < positions; ++t) {
                       const auto at = (b * positions + t) * width + column;
                       add_products(first + at, second == nullptr ? nullptr : second + at, count,
                                    sums + b * width + column);
                     }
                   }
                 });
  });
  return out;
}

}  // namespace

at::Tensor position_sums(const at::Tensor& x_BTD, const at::Tensor& y_BTD) {
  if (!nn::few_launches(x_BTD)) return sums_on_host(x_BTD, y_BTD);
  return (y_BTD.defined() ? x_BTD.to(at::kDouble) * y_BTD : x_BTD).sum(1, false, at::kDouble);
}

std::vector<TokenRun> token_runs(const nn::EmbeddingGrad& grad) {
  const auto ids_BT = grad.ids_BT.to(at::kLong).contiguous();
  const auto positions = ids_BT.size(1);
  std::vector<TokenRun> out;
  std::vector<int64_t> order(static_cast<size_t>(positions));
  for (int64_t b = 0; b < ids_BT.size(0); ++b) {
    const auto* const ids = ids_BT.const_data_ptr<int64_t>() + b * positions;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t s, int64_t t) { return ids[s] < ids[t]; });
    const auto first = out.size();
    for (const auto t : order) {
      if (grad.padding >= 0 && ids[t] == grad.padding) continue;
      if (out.size() == first || out.back().token != ids[t]) out.push_back({b, ids[t], {}});
      out.back().positions.push_back(t);
    }
  }
  return out;
}

template <class Number>
void add_run(const TokenRun& run, const at::Tensor& g_BTD, int64_t begin, int64_t end, double* sums) {
  const auto* const g = g_BTD.const_data_ptr<Number>() + run.sample * g_BTD.stride(0) + begin;
  for (const auto t : run.positions) add_products<Number>(g + t * g_BTD.stride(1), nullptr, end - begin, sums);
}
template void add_run<float>(const TokenRun&, const at::Tensor&, int64_t, int64_t, double*);
template void add_run<double>(const TokenRun&, const at::Tensor&, int64_t, int64_t, double*);
template void add_run<c10::BFloat16>(const TokenRun&, const at::Tensor&, int64_t, int64_t, double*);

// A token's number is how many smaller ones its sample has.
TokenSums token_sums(const nn::EmbeddingGrad& grad) {
  const auto& ids_BT = grad.ids_BT;
  auto g_BTD = grad.g_BTD.to(at::kDouble);
  if (grad.padding >= 0) g_BTD = g_BTD.masked_fill((ids_BT == grad.padding).unsqueeze(2), 0);
  const auto samples = ids_BT.size(0), positions = ids_BT.size(1);
  const auto [sorted_BT, order_BT] = ids_BT.sort(/*dim=*/1);
  const auto next = sorted_BT.narrow(1, 1, positions - 1), last = sorted_BT.narrow(1, 0, positions - 1);
  const auto number_BT = at::constant_pad_nd((next != last).cumsum(1), {1, 0});
  const auto token_of_BT = at::empty_like(number_BT).scatter_(1, order_BT, number_BT);
  const auto first_B1 = at::arange(0, samples * positions, positions, ids_BT.options()).unsqueeze(1);
  auto sums = at::zeros({samples * positions, g_BTD.size(2)}, g_BTD.options());
  sums.index_add_(0, (token_of_BT + first_B1).view({-1}), g_BTD.reshape(sums.sizes()));
  return {sums.view(g_BTD.sizes()), at::zeros_like(ids_BT).scatter_(1, number_BT, sorted_BT),
          at::zeros_like(ids_BT).scatter_(1, number_BT, order_BT)};
}

}  // namespace shade::privacy
