#include "shade/privacy/norms/linear.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "shade/base/memory_scope.h"
#include "shade/nn/function.h"
#include "shade/nn/wide_product.h"
#include "shade/privacy/norms/rounding.h"

namespace shade::privacy {
namespace {

// Below this share of the sum of absolute terms a Gram sum has lost too many digits to be a bound.
constexpr double kCancelled = 1e-3;

// Of each sample's gradient, a sum over positions of g_t a_t^T: |g_t a_t^T| = |g_t| |a_t|.
at::Tensor spread(const at::Tensor& a_BTD, const at::Tensor& g_BTP) {
  return row_norms(a_BTD).mul_(row_norms(g_BTP)).sum(1);
}

at::Tensor rows(const at::Tensor& x_BTD, int64_t begin, int64_t size) {
  return x_BTD.narrow(1, begin, size).to(nn::wide(x_BTD.scalar_type()));
}

}  // namespace

at::Tensor gram_squares(const at::Tensor& a_BTD, const at::Tensor& g_BTP, int64_t wanted_tile) {
  const auto positions = g_BTP.size(1);
  const auto tile = gram_tile(positions, wanted_tile);
  auto squares = at::zeros({g_BTP.size(0)}, g_BTP.options().dtype(at::kDouble));
  auto absolute = at::zeros_like(squares);
  for (int64_t i = 0; i < positions; i += tile) {
    const auto height = std::min(tile, positions - i);
    const auto a_i = rows(a_BTD, i, height), g_i = rows(g_BTP, i, height);
    for (int64_t j = 0; j <= i; j += tile) {
      const auto width = std::min(tile, positions - j);
      const auto a_j = i == j ? a_i : rows(a_BTD, j, width), g_j = i == j ? g_i : rows(g_BTP, j, width);
      const MemoryScope scope(MemoryKind::gram);
      auto terms = at::bmm(a_i, a_j.transpose(1, 2)).mul_(at::bmm(g_i, g_j.transpose(1, 2)));
      const double weight = i == j ? 1 : 2;  // a tile off the diagonal stands for its mirror image too
      squares.add_(terms.sum({1, 2}), weight);
      absolute.add_(terms.abs_().sum({1, 2}), weight);
    }
  }
  // The terms were rounded too.
  squares.add_(absolute, 8 * unit_roundoff(g_BTP.scalar_type()));
  const auto lost = (squares < absolute * kCancelled).nonzero().squeeze(1);
  squares = raised(squares, spread(a_BTD, g_BTP), g_BTP.scalar_type());
  if (lost.numel() > 0)
    squares.index_copy_(0, lost,
                        instantiated_squares(a_BTD.index_select(0, lost), g_BTP.index_select(0, lost), MiB(8)));
  return squares;
}

at::Tensor instantiated_squares(const at::Tensor& a_BTD, const at::Tensor& g_BTP, Bytes workspace) {
  const auto width_in = a_BTD.size(2), width_out = g_BTP.size(2);
  const auto step = std::clamp<int64_t>(workspace.count / std::max<int64_t>(1, width_in * 4), 1, width_out);
  auto squares = at::zeros({g_BTP.size(0)}, g_BTP.options().dtype(at::kDouble));
  const auto block = at::empty({step, width_in}, g_BTP.options().dtype(nn::wide(g_BTP.scalar_type())));
  for (int64_t b = 0; b < g_BTP.size(0); ++b) {
    const auto a = a_BTD[b];
    for (int64_t row = 0; row < width_out; row += step) {
      const auto size = std::min(step, width_out - row);
      const auto part = block.narrow(0, 0, size);
      nn::wide_product(part, g_BTP[b].narrow(1, row, size), a);
      squares[b].add_(squares_of(part.unsqueeze(0))[0]);
    }
  }
  return raised(squares, spread(a_BTD, g_BTP), g_BTP.scalar_type());
}

at::Tensor bias_squares(const at::Tensor& g_BTP) {
  return raised(squares_of(g_BTP.sum(1, false, nn::wide(g_BTP.scalar_type()))), row_norms(g_BTP).sum(1),
                g_BTP.scalar_type());
}

at::Tensor sample_gradients(const at::Tensor& a_BTD, const at::Tensor& g_BTP) {
  return at::bmm(g_BTP.transpose(1, 2), a_BTD);
}

// libtorch sums a row in one accumulator, which forgets the small ones of many: rows are short here, and added in fp64.
at::Tensor squares_of(const at::Tensor& gradients_B) {
  constexpr int64_t kRow = 4096;
  const auto flat_BN = gradients_B.flatten(1);
  const auto squares = [&](const at::Tensor& rows) {
    return at::linalg_vector_norm(rows, 2, {-1}, false, nn::wide(rows.scalar_type())).to(at::kDouble).square_();
  };
  const auto whole = flat_BN.size(1) / kRow * kRow;
  auto out = squares(flat_BN.narrow(1, whole, flat_BN.size(1) - whole));
  if (whole > 0) out += squares(flat_BN.narrow(1, 0, whole).unflatten(1, {whole / kRow, kRow})).sum(1);
  return out;
}

int64_t gram_tile(int64_t positions, int64_t wanted) {
  return wanted > 0 ? wanted : std::clamp<int64_t>(positions / 4, 128, 256);
}

double gram_flops(int64_t positions, int64_t width_in, int64_t width_out, int64_t wanted_tile) {
  const auto tile = gram_tile(positions, wanted_tile);
  const auto tiles = (positions + tile - 1) / tile;
  const auto share = static_cast<double>(tiles + 1) / static_cast<double>(2 * tiles);  // of the whole square
  return 2 * share * static_cast<double>(positions) * static_cast<double>(positions) *
         static_cast<double>(width_in + width_out);
}

double instantiate_flops(int64_t positions, int64_t width_in, int64_t width_out) {
  return 2 * static_cast<double>(positions) * static_cast<double>(width_in) * static_cast<double>(width_out);
}

}  // namespace shade::privacy
