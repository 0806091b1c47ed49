#include "shade/privacy/norms/linear.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>

#include <algorithm>
#include <cmath>

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

// A CPU's Gram sum that may be off by more than this share of itself is replaced.
constexpr double kUncertain = 0.02;
// Unless it is so small that no clip norm (1e-10 or more) notices: a sample without a gradient is not made for that. It
// stays a bound; automatic clipping with a smaller gamma than 1e-11 shrinks such a sample by more than it must.
constexpr double kUnnoticed = 1e-22;
// Below this share of the sum of absolute terms an accelerator's has lost too many digits to be a bound.
constexpr double kCancelled = 1e-3;

// Positions [begin, begin + size), as they are multiplied: a CPU multiplies wide numbers, an accelerator narrow ones.
at::Tensor rows(const at::Tensor& x_BTD, int64_t begin, int64_t size) {
  const auto part = x_BTD.narrow(1, begin, size);
  return nn::few_launches(x_BTD) ? part : part.to(nn::wide(x_BTD.scalar_type()));
}

// Two Gram matrices of tiles i and j of positions, [B, i, j].
struct GramTile {
  at::Tensor a, g;
  int64_t i, j;
  double weight;  // 2 for a tile off the diagonal: it stands for its mirror image too
};
template <class Visit>
void for_each_tile(const at::Tensor& a_BTD, const at::Tensor& g_BTP, int64_t tile, const Visit& visit) {
  const auto positions = g_BTP.size(1);
  for (int64_t i = 0; i < positions; i += tile) {
    const auto height = std::min(tile, positions - i);
    const auto a_i = rows(a_BTD, i, height), g_i = rows(g_BTP, i, height);
    for (int64_t j = 0; j <= i; j += tile) {
      const auto width = std::min(tile, positions - j);
      const auto a_j = i == j ? a_i : rows(a_BTD, j, width), g_j = i == j ? g_i : rows(g_BTP, j, width);
      const MemoryScope scope(MemoryKind::gram);
      visit(GramTile{nn::wide_matmul(a_i, a_j.transpose(1, 2)), nn::wide_matmul(g_i, g_j.transpose(1, 2)), i, j,
                     i == j ? 1.0 : 2.0});
    }
  }
}

// [B], fp64.
struct GramSums {
  at::Tensor squares_B;       // sum over t, s of A_ts G_ts
  at::Tensor by_a_B, by_g_B;  // sum of |a_t| |a_s| |G_ts|, and of |g_t| |g_s| |A_ts|
  at::Tensor a_B, g_B;        // sum over t of |a_t|, and of |g_t|
  at::Tensor spread_B;        // sum over t of |a_t| |g_t|
};

// Each element of the two matrices is read once.
GramSums gram_sums(const at::Tensor& a_BTD, const at::Tensor& g_BTP, int64_t tile) {
  const auto samples = g_BTP.size(0), positions = g_BTP.size(1);
  const auto a_norms = row_norms(a_BTD), g_norms = row_norms(g_BTP);
  const auto options = a_norms.options();
  const auto sums_B3 = at::zeros({samples, 3}, options);
  for_each_tile(a_BTD, g_BTP, tile, [&](const GramTile& of) {
    const auto height = of.a.size(1), width = of.a.size(2);
    const auto rows_B3 = at::zeros({samples, height, 3}, options);
    if (rows_B3.is_meta()) return;
    const auto *a_norm = a_norms.const_data_ptr<double>(), *g_norm = g_norms.const_data_ptr<double>();
    auto* const out = rows_B3.data_ptr<double>();
    AT_DISPATCH_FLOATING_TYPES(of.a.scalar_type(), "gram", [&] {
      const auto *a = of.a.const_data_ptr<scalar_t>(), *g = of.g.const_data_ptr<scalar_t>();
      parallel_for(0, samples * height, 1 + 16384 / width, [&](int64_t from, int64_t to) {
        for (auto row = from; row < to; ++row) {
          const auto at = row / height * positions, t = at + of.i + row % height, s = at + of.j;
          const auto found = gram_row(a + row * width, g + row * width, a_norm + s, g_norm + s, width);
          out[3 * row] = found.terms;
          out[3 * row + 1] = a_norm[t] * found.by_a;
          out[3 * row + 2] = g_norm[t] * found.by_g;
        }
      });
    });
    sums_B3.add_(rows_B3.sum(1), of.weight);
  });
  return {sums_B3.select(1, 0).contiguous(),
          sums_B3.select(1, 1),
          sums_B3.select(1, 2),
          a_norms.sum(1),
          g_norms.sum(1),
          spread_of(a_norms, a_BTD.size(2), g_norms, g_BTP.size(2), g_BTP.scalar_type())};
}

// Dot products of D and P numbers are off by gamma_D |a_t| |a_s| and gamma_P |g_t| |g_s| at most, so the sum of their
// products by gamma_D sum |a_t| |a_s| |G_ts| + gamma_P sum |g_t| |g_s| |A_ts| + gamma_D gamma_P spread^2. The last
// share is of the sums in fp64. Underflow (norms/rounding.h) adds 2 eta ((sqrt(D) sum |g_t| + spread)^2 + (sqrt(P) sum
// |a_t| + spread)^2), or spread^2, which is at least the square itself; the rest of it is in what spread_of() adds.
at::Tensor lost_of(const GramSums& sums, const at::Tensor& a_BTD, const at::Tensor& g_BTP) {
  const auto type = nn::wide(g_BTP.scalar_type());
  const double by_a = gamma_of(a_BTD.size(2), type), by_g = gamma_of(g_BTP.size(2), type);
  const auto spread_squares_B = sums.spread_B.square();
  const auto underflow_B = (sums.spread_B + sums.g_B * std::sqrt(static_cast<double>(a_BTD.size(2)))).square_();
  underflow_B.add_((sums.spread_B + sums.a_B * std::sqrt(static_cast<double>(g_BTP.size(2)))).square_());
  return (sums.by_a_B * by_a)
      .add_(sums.by_g_B, by_g)
      .add_(spread_squares_B, by_a * by_g + 1e-12)
      .add_(at::minimum(underflow_B.mul_(2 * smallest_normal(type)), spread_squares_B));
}

// The samples whose Gram sum is uncertain are instantiated: each by itself, so that no sample changes another's norm.
at::Tensor gram_on_host(const at::Tensor& a_BTD, const at::Tensor& g_BTP, int64_t tile) {
  const auto sums = gram_sums(a_BTD, g_BTP, tile);
  const auto lost_B = lost_of(sums, a_BTD, g_BTP);
  const auto bound_B = sums.squares_B.clamp_min(0).add_(lost_B);
  auto out = raised(bound_B, sums.spread_B, gamma_of(g_BTP.size(1), g_BTP.scalar_type()));
  if (out.is_meta()) return out;  // a plan has none that are
  const auto uncertain = (lost_B > bound_B * kUncertain).logical_and_(bound_B > kUnnoticed).nonzero().squeeze(1);
  if (uncertain.numel() > 0)
    out.index_copy_(0, uncertain,
                    instantiated_squares(a_BTD.index_select(0, uncertain), g_BTP.index_select(0, uncertain), MiB(8)));
  return out;
}

// The share that a sum of so many products may be too small by. The units that multiply narrow numbers on accelerators
// may cut partial sums off instead of rounding them, at each addition of 8 products: by up to 2 u, always towards 0.
double cut_off(const at::Tensor& factor, int64_t products) {
  const auto type = factor.scalar_type();
  const bool cuts = nn::few_launches(factor) && type != nn::wide(type);
  return cuts ? 2 * unit_roundoff(type) * static_cast<double>(products) / 8 : 0;
}

// To know which samples are uncertain would wait for an accelerator: there a sum is raised by an estimate of what
// rounding the terms can take away, as a share of the absolute terms, and counts as kCancelled of these at least. Such
// a sample is clipped by up to sqrt(kCancelled absolute) instead of its norm: by more than it had to be, never by less.
at::Tensor gram_on_device(const at::Tensor& a_BTD, const at::Tensor& g_BTP, int64_t tile) {
  at::Tensor squares, absolute;
  const auto add = [](at::Tensor& sum, const at::Tensor& part, double weight) {
    sum = sum.defined() ? sum.add_(part, weight) : part.to(at::kDouble);
  };
  for_each_tile(a_BTD, g_BTP, tile, [&](const GramTile& of) {
    auto terms = of.a * of.g;
    add(squares, terms.sum({1, 2}), of.weight);
    add(absolute, terms.abs_().sum({1, 2}), of.weight);
  });
  const double share = 8 * unit_roundoff(g_BTP.scalar_type()) + cut_off(g_BTP, a_BTD.size(2) + g_BTP.size(2));
  // Underflow of the dot products is less than 2 u spread^2, that of their products and sums 4 eta for each.
  const auto type = nn::wide(g_BTP.scalar_type());
  const auto spread_B = spread_of(a_BTD, g_BTP);
  const auto positions = static_cast<double>(g_BTP.size(1));
  squares.add_(absolute, share).addcmul_(spread_B, spread_B, 2 * unit_roundoff(type));
  squares.add_(4 * smallest_normal(type) * positions * positions);
  return raised(at::maximum(squares, absolute * kCancelled), spread_B, gamma_of(g_BTP.size(1), g_BTP.scalar_type()));
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
  const auto tile = gram_tile(g_BTP, wanted_tile);
  return nn::few_launches(g_BTP) ? gram_on_device(a_BTD, g_BTP, tile) : gram_on_host(a_BTD, g_BTP, tile);
}

// Twice gamma: what is measured here and what is summed are two sums of the same terms.
at::Tensor instantiated_squares(const at::Tensor& a_BTD, const at::Tensor& g_BTP, Bytes workspace) {
  const double share = 2 * gamma_of(g_BTP.size(1), g_BTP.scalar_type());
  if (nn::few_launches(g_BTP))
    // What is cut off is a share of the terms, not of a sum in which they may cancel.
    return raised(instantiated_together(a_BTD, g_BTP, workspace), spread_of(a_BTD, g_BTP),
                  share + cut_off(g_BTP, g_BTP.size(1)));
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
  return raised(squares, spread_of(a_BTD, g_BTP), share);
}

at::Tensor bias_squares(const at::Tensor& g_BTP) { return squares_of(position_sums(g_BTP)); }

at::Tensor sample_gradients(const at::Tensor& a_BTD, const at::Tensor& g_BTP) {
  return nn::batch_product(g_BTP.transpose(1, 2), a_BTD);
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
