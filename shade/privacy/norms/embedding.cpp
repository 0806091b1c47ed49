#include "shade/privacy/norms/embedding.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>

#include <algorithm>
#include <numeric>

#include "shade/base/error.h"
#include "shade/base/execution.h"
#include "shade/base/memory_scope.h"
#include "shade/base/parallel.h"
#include "shade/nn/function.h"
#include "shade/nn/launches.h"
#include "shade/nn/row_product.h"
#include "shade/privacy/exact_kernels.h"
#include "shade/privacy/norms/position_sums.h"
#include "shade/privacy/norms/rounding.h"

namespace shade::privacy {
namespace {

// Of the lookup's gradient E, [B] fp64: |E|^2, and <E, H> if there are rows of H. Token by token: of E the sum over the
// token's positions, of H the row at one of them. Position by position the terms of a token could cancel to less than
// their rounding.
struct LookupSums {
  at::Tensor squares_B, product_B;
};

LookupSums lookups_on_host(const nn::EmbeddingGrad& lookup, const at::Tensor& rows_BTD) {
  const auto g_BTD = lookup.g_BTD.contiguous();
  const auto rows = rows_BTD.defined() ? rows_BTD.to(at::kDouble).contiguous() : at::Tensor();
  const auto positions = g_BTD.size(1), width = g_BTD.size(2);
  const auto zeros = [&] { return at::zeros({g_BTD.size(0)}, g_BTD.options().dtype(at::kDouble)); };
  LookupSums out{zeros(), rows.defined() ? zeros() : at::Tensor()};
  if (g_BTD.is_meta()) {
    say_skipped({.name = "squares of lookups",
                 .element_size = static_cast<int64_t>(g_BTD.element_size()),
                 .read = static_cast<double>(g_BTD.nbytes())});
    return out;
  }
  const auto runs = token_runs(lookup);
  std::vector<double> squares(runs.size()), products(runs.size());
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, g_BTD.scalar_type(), "sums of lookups", [&] {
    parallel_for(0, std::ssize(runs), 1 + 16384 / std::max<int64_t>(1, width), [&](int64_t from, int64_t to) {
      std::vector<double> sums(static_cast<size_t>(width));
      for (auto i = static_cast<size_t>(from); i < static_cast<size_t>(to); ++i) {
        std::fill(sums.begin(), sums.end(), 0);
        add_run<scalar_t>(runs[i], g_BTD, 0, width, sums.data());
        squares[i] = sum_of_squares(sums.data(), width);
        if (!rows.defined()) continue;
        const auto at = runs[i].sample * positions + runs[i].positions.front();
        products[i] = std::inner_product(sums.begin(), sums.end(), rows.const_data_ptr<double>() + at * width, 0.0);
      }
    });
  });
  for (size_t i = 0; i < runs.size(); ++i) {
    out.squares_B.data_ptr<double>()[runs[i].sample] += squares[i];
    if (rows.defined()) out.product_B.data_ptr<double>()[runs[i].sample] += products[i];
  }
  return out;
}

LookupSums lookups_by_device(const nn::EmbeddingGrad& lookup, const at::Tensor& rows_BTD) {
  const auto sums = token_sums(lookup);
  LookupSums out{sums.sums_BTD.square().sum({1, 2}), {}};
  if (!rows_BTD.defined()) return out;
  const auto at_BTD = sums.positions_BT.unsqueeze(2).expand_as(rows_BTD);
  out.product_B = (sums.sums_BTD * rows_BTD.gather(1, at_BTD)).sum({1, 2});
  return out;
}

LookupSums sums_of(const nn::EmbeddingGrad& lookup, const at::Tensor& rows_BTD = {}) {
  const bool by_device = nn::few_launches(lookup.g_BTD) && lookup.ids_BT.numel() > 0;
  return by_device ? lookups_by_device(lookup, rows_BTD) : lookups_on_host(lookup, rows_BTD);
}

// Equal without a look at the values: an accelerator would have to be waited for.
bool same_memory(const at::Tensor& x, const at::Tensor& y) {
  return x.is_alias_of(y) && x.storage_offset() == y.storage_offset() && x.sizes() == y.sizes() &&
         x.strides() == y.strides() && x.scalar_type() == y.scalar_type();
}

}  // namespace

at::Tensor embedding_squares(const nn::EmbeddingGrad& grad) { return sums_of(grad).squares_B; }

namespace {

// The positions whose row is in the head's slice. On meta, where ids have no values: its share of them.
at::Tensor places_of(const at::Tensor& column_T, const nn::LinearGrad& head) {
  const auto size = head.g_BTP.size(2);
  if (!column_T.is_meta()) return ((column_T >= 0) & (column_T < size)).nonzero().squeeze(1);
  const auto rows = head.weight->shape()[0];
  return at::empty({(column_T.numel() * size + rows - 1) / rows}, column_T.options());
}

}  // namespace

template <class Rows>
void TiedRows::fill(const nn::LinearGrad& head, const Rows& rows_of) {
  const auto& ids_BT = head.looked_up_BT;
  const auto type = nn::wide(head.g_BTP.scalar_type());
  ids_BT_ = ids_BT;
  if (!rows_BTD_.defined()) {
    const MemoryScope scope(MemoryKind::kept);
    rows_BTD_ = at::zeros({ids_BT.size(0), ids_BT.size(1), head.a_BTD.size(2)}, head.a_BTD.options().dtype(type));
  }
  for (int64_t b = 0; b < ids_BT.size(0); ++b) {
    const auto column = ids_BT[b] - head.row;
    const auto here = places_of(column, head);
    if (here.numel() > 0) rows_BTD_[b].index_copy_(0, here, rows_of(b, column.index_select(0, here)));
  }
}

void TiedRows::add(const nn::LinearGrad& head) {
  const auto spread_B = spread_of(head.a_BTD, head.g_BTP).square_();
  spreads_B_ = spreads_B_.defined() ? spreads_B_.add_(spread_B) : spread_B;
  positions_ = head.g_BTP.size(1);
  factors_ = head.g_BTP.scalar_type();
  if (nn::few_launches(head.g_BTP)) return add_columns(head);
  const auto type = nn::wide(head.g_BTP.scalar_type());
  fill(head, [&](int64_t b, const at::Tensor& columns) {
    return at::mm(head.g_BTP[b].index_select(1, columns).to(type).t(), head.a_BTD[b].to(type));
  });
}

void TiedRows::add(const nn::LinearGrad& head, const at::Tensor& gradients_BPD) {
  if (nn::few_launches(head.g_BTP)) return add_rows(head, gradients_BPD);
  const auto type = nn::wide(head.g_BTP.scalar_type());
  fill(head, [&](int64_t b, const at::Tensor& rows) { return gradients_BPD[b].index_select(0, rows).to(type); });
}

TiedRows::Slice TiedRows::slice_of(const nn::LinearGrad& head) {
  ids_BT_ = head.looked_up_BT;
  const auto size = head.g_BTP.size(2);
  const auto row_BT = ids_BT_ - head.row;
  return {(row_BT >= 0).logical_and_(row_BT < size), row_BT.clamp(0, size - 1)};
}

// z_s[ids_t], collected over the slices; multiplied once, for the lookup.
void TiedRows::add_columns(const nn::LinearGrad& head) {
  const auto [inside_BT, row_BT] = slice_of(head);
  const auto found_BST = head.g_BTP.gather(2, row_BT.unsqueeze(1).expand({-1, head.g_BTP.size(1), -1}));
  const MemoryScope scope(MemoryKind::kept);
  z_BST_ = z_BST_.defined() ? at::where(inside_BT.unsqueeze(1), found_BST, z_BST_)
                            : found_BST.masked_fill(inside_BT.logical_not().unsqueeze(1), 0);
  a_BSD_ = head.a_BTD;
}

void TiedRows::add_rows(const nn::LinearGrad& head, const at::Tensor& gradients_BPD) {
  const auto [inside_BT, row_BT] = slice_of(head);
  const auto found_BTD = gradients_BPD.gather(1, row_BT.unsqueeze(2).expand({-1, -1, gradients_BPD.size(2)}))
                             .to(nn::wide(gradients_BPD.scalar_type()));
  const MemoryScope scope(MemoryKind::kept);
  rows_BTD_ = rows_BTD_.defined() ? at::where(inside_BT.unsqueeze(2), found_BTD, rows_BTD_)
                                  : found_BTD.masked_fill(inside_BT.logical_not().unsqueeze(2), 0);
}

at::Tensor TiedRows::rows(const nn::EmbeddingGrad& lookup) const {
  SHADE_REQUIRE(same_memory(ids_BT_, lookup.ids_BT) || ids_BT_.equal(lookup.ids_BT), "table ",
                lookup.table != nullptr ? lookup.table->name() : "",
                " was told to look up other rows (LmLossOptions::looked_up_BT) than it did, so the cross term of its "
                "norm is unknown");
  // What is looked up is in one slice, which was added in one way: in the other it is 0.
  auto rows_BTD = rows_BTD_;
  if (z_BST_.defined()) {
    // Widened: units that cut off sums of narrow products would take more than lookup_squares() adds.
    const auto type = nn::wide(a_BSD_.scalar_type());
    const auto made_BTD = at::matmul(z_BST_.transpose(1, 2).to(type), a_BSD_.to(type));
    rows_BTD = rows_BTD.defined() ? rows_BTD + made_BTD : made_BTD;
  }
  return rows_BTD;
}

at::Tensor TiedRows::lookup_squares(const nn::EmbeddingGrad& lookup, const at::Tensor& head_squares_B) const {
  const auto [squares_B, product_B] = sums_of(lookup, rows(lookup));
  const auto apart_B = squares_B + head_squares_B;
  auto out = (squares_B + product_B * 2).add_(apart_B, 1e-11);
  if (spreads_B_.defined()) {
    const double share = 2 * gamma_of(positions_, factors_);
    out.add_(squares_B.sqrt().mul_(spreads_B_.sqrt()), 2 * share);
  }
  return at::maximum(out, apart_B / (kHeaviestTerm * kHeaviestTerm) - head_squares_B);
}

}  // namespace shade::privacy
