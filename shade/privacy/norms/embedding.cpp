#include "shade/privacy/norms/embedding.h"

#include <ATen/ATen.h>

#include <cmath>

#include "shade/base/error.h"
#include "shade/base/memory_scope.h"
#include "shade/nn/function.h"
#include "shade/nn/launches.h"
#include "shade/nn/wide_product.h"
#include "shade/privacy/norms/linear.h"
#include "shade/privacy/norms/rounding.h"

namespace shade::privacy {
namespace {

// g without the positions that don't train the table, in fp32 at least.
at::Tensor counted(const nn::EmbeddingGrad& grad) {
  const auto g = grad.g_BTD.to(nn::wide(grad.g_BTD.scalar_type()));
  return grad.padding < 0 ? g : g.masked_fill((grad.ids_BT == grad.padding).unsqueeze(2), 0);
}

// Which of the rows each position looks up, by their number among those that are. On meta ids have no values: as many
// rows as equally likely tokens would be on average.
std::pair<int64_t, at::Tensor> distinct(const at::Tensor& ids_T, int64_t rows) {
  if (ids_T.is_meta()) {
    const auto all = static_cast<double>(rows);
    const double missed = static_cast<double>(ids_T.numel()) * std::log1p(-1 / all);
    return {rows < 2 ? rows : std::llround(-all * std::expm1(missed)), at::empty_like(ids_T)};
  }
  const auto [tokens, token_of, counts] = at::_unique2(ids_T, /*sorted=*/true, /*return_inverse=*/true);
  return {tokens.size(0), token_of};
}

at::Tensor squares_one_by_one(const at::Tensor& ids_BT, const at::Tensor& g_BTD, int64_t rows) {
  auto squares = at::zeros({g_BTD.size(0)}, g_BTD.options().dtype(at::kDouble));
  for (int64_t b = 0; b < g_BTD.size(0); ++b) {
    const auto [tokens, token_of] = distinct(ids_BT[b], rows);
    const auto sums = at::zeros({tokens, g_BTD.size(2)}, g_BTD.options()).index_add_(0, token_of, g_BTD[b]);
    squares[b].copy_(squares_of(sums.unsqueeze(0))[0]);
  }
  return squares;
}

// All samples at once: a token's number is how many smaller ones its sample has. T sums a sample, most of them 0.
at::Tensor squares_together(const at::Tensor& ids_BT, const at::Tensor& g_BTD) {
  const auto samples = ids_BT.size(0), positions = ids_BT.size(1);
  const auto [sorted_BT, order_BT] = ids_BT.sort(/*dim=*/1);
  const auto next = sorted_BT.narrow(1, 1, positions - 1), last = sorted_BT.narrow(1, 0, positions - 1);
  const auto number_BT = at::constant_pad_nd((next != last).cumsum(1), {1, 0});
  const auto token_of_BT = at::empty_like(number_BT).scatter_(1, order_BT, number_BT);
  const auto first_B1 = at::arange(0, samples * positions, positions, ids_BT.options()).unsqueeze(1);
  auto sums = at::zeros({samples * positions, g_BTD.size(2)}, g_BTD.options());
  sums.index_add_(0, (token_of_BT + first_B1).view({-1}), g_BTD.reshape(sums.sizes()));
  return squares_of(sums.view(g_BTD.sizes()));
}

// Equal without a look at the values: an accelerator would have to be waited for.
bool same_memory(const at::Tensor& x, const at::Tensor& y) {
  return x.is_alias_of(y) && x.storage_offset() == y.storage_offset() && x.sizes() == y.sizes() &&
         x.strides() == y.strides() && x.scalar_type() == y.scalar_type();
}

}  // namespace

at::Tensor embedding_squares(const nn::EmbeddingGrad& grad) {
  const auto g_BTD = counted(grad);
  const bool together = nn::few_launches(g_BTD) && grad.ids_BT.numel() > 0;
  const auto rows = grad.table != nullptr ? grad.table->shape()[0] : std::max<int64_t>(1, grad.ids_BT.numel());
  const auto squares = together ? squares_together(grad.ids_BT, g_BTD) : squares_one_by_one(grad.ids_BT, g_BTD, rows);
  return raised(squares, row_norms(g_BTD).sum(1), g_BTD.scalar_type());
}

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

at::Tensor TiedRows::product(const nn::EmbeddingGrad& lookup) const {
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
  return (counted(lookup) * rows_BTD).sum({1, 2}, false, at::kDouble);
}

at::Tensor TiedRows::lookup_squares(const nn::EmbeddingGrad& lookup, const at::Tensor& head_squares_B) const {
  const auto squares_B = embedding_squares(lookup);
  const double lost = 16 * unit_roundoff(lookup.g_BTD.scalar_type());
  return (squares_B + product(lookup) * 2).add_(squares_B + head_squares_B, lost);
}

}  // namespace shade::privacy
