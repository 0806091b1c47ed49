#include "shade/privacy/norms/embedding.h"

#include <ATen/ATen.h>

#include "shade/base/error.h"
#include "shade/base/memory_scope.h"
#include "shade/nn/function.h"
#include "shade/privacy/norms/linear.h"
#include "shade/privacy/norms/rounding.h"

namespace shade::privacy {
namespace {

// g without the positions that don't train the table, in fp32 at least.
at::Tensor counted(const nn::EmbeddingGrad& grad) {
  const auto g = grad.g_BTD.to(nn::wide(grad.g_BTD.scalar_type()));
  return grad.padding < 0 ? g : g.masked_fill((grad.ids_BT == grad.padding).unsqueeze(2), 0);
}

}  // namespace

at::Tensor embedding_squares(const nn::EmbeddingGrad& grad) {
  const auto g_BTD = counted(grad);
  auto squares = at::zeros({g_BTD.size(0)}, g_BTD.options().dtype(at::kDouble));
  for (int64_t b = 0; b < g_BTD.size(0); ++b) {
    const auto [tokens, token_of, counts] = at::_unique2(grad.ids_BT[b], /*sorted=*/true, /*return_inverse=*/true);
    const auto sums = at::zeros({tokens.size(0), g_BTD.size(2)}, g_BTD.options()).index_add_(0, token_of, g_BTD[b]);
    squares[b].copy_(squares_of(sums.unsqueeze(0))[0]);
  }
  return raised(squares, row_norms(g_BTD).sum(1), g_BTD.scalar_type());
}

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
    const auto here = ((column >= 0) & (column < head.g_BTP.size(2))).nonzero().squeeze(1);
    if (here.numel() > 0) rows_BTD_[b].index_copy_(0, here, rows_of(b, column.index_select(0, here)));
  }
}

void TiedRows::add(const nn::LinearGrad& head) {
  const auto type = nn::wide(head.g_BTP.scalar_type());
  fill(head, [&](int64_t b, const at::Tensor& columns) {
    return at::mm(head.g_BTP[b].index_select(1, columns).to(type).t(), head.a_BTD[b].to(type));
  });
}

void TiedRows::add(const nn::LinearGrad& head, const at::Tensor& gradients_BPD) {
  const auto type = nn::wide(head.g_BTP.scalar_type());
  fill(head, [&](int64_t b, const at::Tensor& rows) { return gradients_BPD[b].index_select(0, rows).to(type); });
}

at::Tensor TiedRows::product(const nn::EmbeddingGrad& lookup) const {
  SHADE_REQUIRE(ids_BT_.equal(lookup.ids_BT), "table ", lookup.table != nullptr ? lookup.table->name() : "",
                " was told to look up other rows (LmLossOptions::looked_up_BT) than it did, so the cross term of its "
                "norm is unknown");
  return (counted(lookup) * rows_BTD_).sum({1, 2}, false, at::kDouble);
}

at::Tensor TiedRows::lookup_squares(const nn::EmbeddingGrad& lookup, const at::Tensor& head_squares_B) const {
  const auto squares_B = embedding_squares(lookup);
  const double lost = 16 * unit_roundoff(lookup.g_BTD.scalar_type());
  return (squares_B + product(lookup) * 2).add_(squares_B + head_squares_B, lost);
}

}  // namespace shade::privacy
