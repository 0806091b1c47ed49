#include "shade/privacy/norms/linear.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "shade/base/memory_scope.h"
#include "shade/nn/function.h"
#include "shade/nn/launches.h"
#include "shade/nn/wide_product.h"
#include "shade/privacy/norms/rounding.h"

namespace shade::privacy {
namespace {

// Below this share of the sum of absolute terms a Gram sum has lost too many digits to be a bound.
constexpr double kCancelled = 1e-3;

// Of each sample's gradient, a sum over positions of g_t a_t^T: |g_t a_t^T| = |g_t| |a_t|.
at::Tensor spread(const at::Tensor& a_BTD, const at::Tensor& g_BTP) {
  if (nn::few_launches(g_BTP))  // the product may lose digits as the norms do
    return at::linalg_vector_norm(a_BTD, 2, {-1})
        .mul_(at::linalg_vector_norm(g_BTP, 2, {-1}))
        .sum(1, false, at::kDouble);
  return row_norms(a_BTD).mul_(row_norms(g_BTP)).sum(1);
}

// Positions [begin, begin + size), as they are multiplied: a CPU multiplies wide numbers, an accelerator narrow ones.
at::Tensor rows(const at::Tensor& x_BTD, int64_t begin, int64_t size) {
  const auto part = x_BTD.narrow(1, begin, size);
  return nn::few_launches(x_BTD) ? part : part.to(nn::wide(x_BTD.scalar_type()));
}

// [B], fp64: the sum of the terms (a_t . a_s)(g_t . g_s), and that of their absolute values.
struct GramSums {
  at::Tensor squares_B, absolute_B;
};
GramSums gram_sums(const at::Tensor& a_BTD, const at::Tensor& g_BTP, int64_t tile) {
  const auto positions = g_BTP.size(1);
  GramSums sums;
  const auto add = [](at::Tensor& sum, const at::Tensor& part, double weight) {
    sum = sum.defined() ? sum.add_(part, weight) : part.to(at::kDouble);
  };
  for (int64_t i = 0; i < positions; i += tile) {
    const auto height = std::min(tile, positions - i);
    const auto a_i = rows(a_BTD, i, height), g_i = rows(g_BTP, i, height);
    for (int64_t j = 0; j <= i; j += tile) {
      const auto width = std::min(tile, positions - j);
      const auto a_j = i == j ? a_i : rows(a_BTD, j, width), g_j = i == j ? g_i : rows(g_BTP, j, width);
      const MemoryScope scope(MemoryKind::gram);
      auto terms = nn::wide_matmul(a_i, a_j.transpose(1, 2)).mul_(nn::wide_matmul(g_i, g_j.transpose(1, 2)));
      const double weight = i == j ? 1 : 2;  // a tile off the diagonal stands for its mirror image too
      add(sums.squares_B, terms.sum({1, 2}), weight);
      add(sums.absolute_B, terms.abs_().sum({1, 2}), weight);
    }
  }
  return sums;
}

// The share that a sum of so many products may be too small by. The units that multiply narrow numbers on accelerators
// may cut partial sums off instead of rounding them, at each addition of 8 products: by up to 2 u, always towards 0.
double cut_off(const at::Tensor& factor, int64_t products) {
  const auto type = factor.scalar_type();
  const bool cuts = nn::few_launches(factor) && type != nn::wide(type);
  return cuts ? 2 * unit_roundoff(type) * static_cast<double>(products) / 8 : 0;
}

// What rounding the terms and their sum can take away, as a share of the absolute terms.
double gram_rounding(const at::Tensor& a_BTD, const at::Tensor& g_BTP) {
  return 8 * unit_roundoff(g_BTP.scalar_type()) + cut_off(g_BTP, a_BTD.size(2) + g_BTP.size(2));
}

// The samples of a CPU whose Gram sum cancelled are instantiated. To know which they are would wait for an accelerator:
// there a sum counts as kCancelled of its absolute terms at least. Such a sample is clipped by up to
// sqrt(kCancelled absolute) instead of its norm: by more than it had to be, never by less.
at::Tensor guarded(const GramSums& sums, const at::Tensor& a_BTD, const at::Tensor& g_BTP) {
  const auto type = g_BTP.scalar_type();
  const auto& [squares, absolute] = sums;
  if (nn::few_launches(g_BTP)) return raised(at::maximum(squares, absolute * kCancelled), spread(a_BTD, g_BTP), type);
  const auto cancelled = squares < absolute * kCancelled;
  const auto lost = cancelled.is_meta() ? at::Tensor() : cancelled.nonzero().squeeze(1);  // a plan has none
  auto out = raised(squares, spread(a_BTD, g_BTP), type);
  if (lost.defined() && lost.numel() > 0)
    out.index_copy_(0, lost, instantiated_squares(a_BTD.index_select(0, lost), g_BTP.index_select(0, lost), MiB(8)));
  return out;
}

// As many samples at a time as fit into the workspace; of a sample that doesn't, rows.
at::Tensor instantiated_together(const at::Tensor& a_BTD, const at::Tensor& g_BTP, Bytes workspace) {
  const auto samples = g_BTP.size(0), width_out = g_BTP.size(2);
  const auto row_bytes = std::max<int64_t>(1, a_BTD.size(2) * 4);
  const auto step = std::clamp<int64_t>(workspace.count / row_bytes, 1, width_out);
  const auto together =
      std::clamp<int64_t>(workspace.count / (row_bytes * width_out), 1, std::max<int64_t>(1, samples));
  std::vector<at::Tensor> squares;
  for (int64_t b = 0; b < std::max<int64_t>(1, samples); b += together) {
    const auto size = std::min(together, samples - b);
    const auto a = a_BTD.narrow(0, b, size), g = g_BTP.narrow(0, b, size);
    at::Tensor sum;
    for (int64_t row = 0; row < width_out; row += step) {
      const auto part = g.narrow(2, row, std::min(step, width_out - row)).transpose(1, 2);
      const auto found = squares_of(nn::wide_matmul(part, a));
      sum = sum.defined() ? sum.add_(found) : found;
    }
    squares.push_back(sum);
  }
  return squares.size() == 1 ? squares.front() : at::cat(squares);
}

}  // namespace

at::Tensor gram_squares(const at::Tensor& a_BTD, const at::Tensor& g_BTP, int64_t wanted_tile) {
  if (g_BTP.size(1) == 0) return at::zeros({g_BTP.size(0)}, g_BTP.options().dtype(at::kDouble));
  auto sums = gram_sums(a_BTD, g_BTP, gram_tile(g_BTP, wanted_tile));
  sums.squares_B.add_(sums.absolute_B, gram_rounding(a_BTD, g_BTP));
  return guarded(sums, a_BTD, g_BTP);
}

at::Tensor instantiated_squares(const at::Tensor& a_BTD, const at::Tensor& g_BTP, Bytes workspace) {
  if (nn::few_launches(g_BTP))
    // What is cut off is a share of the terms, not of a sum in which they may cancel.
    return raised(instantiated_together(a_BTD, g_BTP, workspace), spread(a_BTD, g_BTP), g_BTP.scalar_type(),
                  cut_off(g_BTP, g_BTP.size(1)));
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
  // A CPU's kernel widens all of its input first. Said here, a plan counts the copy too.
  const auto squares = [&](const at::Tensor& rows) {
    const auto type = nn::wide(rows.scalar_type());
    const auto input = nn::few_launches(rows) ? rows : rows.to(type);
    return at::linalg_vector_norm(input, 2, {-1}, false, type).to(at::kDouble).square_();
  };
  if (flat_BN.size(1) <= kRow) return squares(flat_BN);
  // On accelerators rows without a rest, if they are not too short: half the operators.
  const auto even = std::gcd(flat_BN.size(1), kRow);
  const auto row = nn::few_launches(flat_BN) && even >= 64 ? even : kRow;
  const auto whole = flat_BN.size(1) / row * row, rest = flat_BN.size(1) - whole;
  auto out = squares(flat_BN.narrow(1, 0, whole).unflatten(1, {whole / row, row})).sum(1);
  return rest == 0 ? out : squares(flat_BN.narrow(1, whole, rest)).add_(out);
}

int64_t gram_tile(const at::Tensor& g_BTP, int64_t wanted) {
  const auto positions = g_BTP.size(1);
  if (wanted > 0) return wanted;
  if (!nn::few_launches(g_BTP)) return std::clamp<int64_t>(positions / 4, 128, 256);
  const auto samples = static_cast<double>(std::max<int64_t>(1, g_BTP.size(0)));
  const auto fits = std::sqrt(static_cast<double>(nn::largest_block(g_BTP).count) / (2 * 4 * samples));
  return std::clamp<int64_t>(static_cast<int64_t>(fits), 128, std::max<int64_t>(128, positions));
}

Bytes norm_workspace(const at::Tensor& g_BTP, Bytes wanted) {
  if (wanted.count > 0) return wanted;
  return nn::few_launches(g_BTP) ? nn::largest_block(g_BTP) : MiB(4);
}

double gram_flops(int64_t positions, int64_t width_in, int64_t width_out, int64_t tile) {
  const auto tiles = (positions + tile - 1) / tile;
  const auto share = static_cast<double>(tiles + 1) / static_cast<double>(2 * tiles);  // of the whole square
  return 2 * share * static_cast<double>(positions) * static_cast<double>(positions) *
         static_cast<double>(width_in + width_out);
}

double instantiate_flops(int64_t positions, int64_t width_in, int64_t width_out) {
  return 2 * static_cast<double>(positions) * static_cast<double>(width_in) * static_cast<double>(width_out);
}

}  // namespace shade::privacy
