#include "shade/privacy/clip/exact_sum.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "shade/base/error.h"
#include "shade/base/execution.h"
#include "shade/base/parallel.h"
#include "shade/nn/function.h"
#include "shade/nn/launches.h"
#include "shade/nn/row_product.h"
#include "shade/privacy/exact_kernels.h"
#include "shade/privacy/norms/position_sums.h"
#include "shade/privacy/norms/scale_shift.h"

namespace shade::privacy {
namespace {

constexpr int kBitsBelow = 33;                // of the spacing below the clip norm
constexpr int64_t kTermsAtATime = 1024;       // whose sums stay in the nearest cache
constexpr int64_t kMoreThanCaches = 1 << 18;  // sums
constexpr Bytes kProducts = MiB(2);           // samples' products that wait to be added

void say_shapes(const at::Tensor& into, const at::Tensor& gradients, bool adds) {
  say_skipped({.name = "exact sum",
               .element_size = static_cast<int64_t>(gradients.element_size()),
               .read = static_cast<double>(gradients.nbytes() + (adds ? into.nbytes() : 0)),
               .written = static_cast<double>(into.nbytes())});
}

// On the grid, by the same rounding as add_terms() (exact_kernels.h).
at::Tensor on_grid(const at::Tensor& terms, double spacing) {
  return (terms + 0x1.8p52 * spacing) - 0x1.8p52 * spacing;
}

// [B, N] -> [B, N] fp64.
at::Tensor terms_of(const at::Tensor& gradients_BN, const SampleWeights& weights) {
  const auto c_B1 = weights.c_B.unsqueeze(1);
  return on_grid((gradients_BN.to(at::kDouble) * c_B1).masked_fill_(c_B1 == 0, 0), weights.spacing);
}

void add_by_device(const at::Tensor& into_N, const at::Tensor& gradients_BN, const SampleWeights& weights, bool adds) {
  const auto samples = std::max<int64_t>(1, gradients_BN.size(0));
  const auto columns = std::max<int64_t>(1, nn::largest_block(gradients_BN).count / (samples * 8));
  for (int64_t at = 0; at < into_N.numel(); at += columns) {
    const auto size = std::min(columns, into_N.numel() - at);
    auto into = into_N.narrow(0, at, size);
    const auto sums = terms_of(gradients_BN.narrow(1, at, size), weights).sum(0);
    adds ? into.add_(sums) : into.copy_(sums);
  }
}

at::Tensor buffer_of(const nn::Weight& weight, nn::GradientSink& sink) {
  auto buffer = sink.buffer(weight);
  SHADE_REQUIRE(buffer.scalar_type() == at::kDouble, "weight ", weight.name(), ": its clipped sum is added to ",
                buffer.toString(), "; expected fp64 (PlainGradients(at::kDouble)), in which no addition is rounded");
  return buffer;
}

// Rows of a weight: as many samples at a time as fit, of a sample that doesn't fit rows.
void add_weight(const nn::LinearGrad& grad, const SampleWeights& weights, nn::GradientSink& sink) {
  const auto samples = grad.g_BTP.size(0), width_in = grad.a_BTD.size(2), width_out = grad.g_BTP.size(2);
  const auto type = nn::wide(grad.g_BTP.scalar_type());
  const bool adds = sink.written(*grad.weight), few = nn::few_launches(grad.g_BTP);
  const auto rows_PD = buffer_of(*grad.weight, sink).view({grad.weight->shape()[0], -1}).narrow(0, grad.row, width_out);
  const auto room = (few ? nn::largest_block(grad.g_BTP) : kProducts).count;
  const auto row_bytes = width_in * static_cast<int64_t>(c10::elementSize(type));
  const auto step = std::clamp<int64_t>(room / std::max<int64_t>(1, row_bytes), 1, width_out);
  const auto together = std::clamp<int64_t>(room / (row_bytes * width_out + 1), 1, std::max<int64_t>(1, samples));
  // Of the host; an accelerator's allocator keeps what it made. Each begins at a multiple of 64 bytes: some of MKL's
  // kernels treat memory by its address, and give the same factors other bits elsewhere.
  const auto slot = (step * width_in + 15) / 16 * 16;
  at::Tensor products;
  if (!few) products = at::empty({together, slot}, grad.g_BTP.options().dtype(type));
  for (int64_t row = 0; row < width_out; row += step) {
    const auto height = std::min(step, width_out - row);
    const auto into_N = rows_PD.narrow(0, row, height).view({-1});
    for (int64_t b = 0; b < std::max<int64_t>(1, samples); b += together) {
      const auto size = std::min(together, samples - b);
      const auto g = grad.g_BTP.narrow(0, b, size).narrow(2, row, height), a = grad.a_BTD.narrow(0, b, size);
      at::Tensor made_BN;
      if (few) {
        made_BN = nn::wide_matmul(g.transpose(1, 2), a).flatten(1);
      } else {
        made_BN = products.narrow(0, 0, size).narrow(1, 0, height * width_in);
        for (int64_t i = 0; i < size; ++i) nn::wide_product(made_BN[i].view({height, width_in}), g[i], a[i]);
      }
      add_terms_of(into_N, made_BN, {weights.c_B.narrow(0, b, size), weights.spacing}, adds || b > 0);
    }
  }
  if (grad.last) sink.mark_written(*grad.weight);
}

void add_layer(const nn::LinearGrad& grad, const SampleWeights& weights, nn::GradientSink& sink) {
  if (grad.weight != nullptr) add_weight(grad, weights, sink);
  if (grad.bias != nullptr) add_clipped(SampleGradients{position_sums(grad.g_BTP), grad.bias}, weights, sink);
}

void add_layer(const nn::ScaleShiftGrad& grad, const SampleWeights& weights, nn::GradientSink& sink) {
  if (grad.scale != nullptr) add_clipped(SampleGradients{scale_gradients(grad), grad.scale}, weights, sink);
  if (grad.shift != nullptr) add_clipped(SampleGradients{shift_gradients(grad), grad.shift}, weights, sink);
}

void add_layer(const nn::AddedGrad& grad, const SampleWeights& weights, nn::GradientSink& sink) {
  add_clipped(SampleGradients{grad.g_BTD.flatten(1), grad.added}, weights, sink);  // [T, D] or [1, T, D]
}

void add_layer(const nn::OwnGrad& grad, const SampleWeights& weights, nn::GradientSink& sink) {
  for (const auto& each : own_gradients(grad)) add_clipped(each, weights, sink);
}

// What a sample's positions add to one row is one term.
void add_lookups(const nn::EmbeddingGrad& grad, const SampleWeights& weights, const at::Tensor& table_VD) {
  const auto g_BTD = grad.g_BTD.contiguous();
  const auto width = g_BTD.size(2);
  const auto* const c = weights.c_B.const_data_ptr<double>();
  auto* const table = table_VD.data_ptr<double>();
  const auto runs = token_runs(grad);
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, g_BTD.scalar_type(), "lookups", [&] {
    // Threads have columns of their own, so that no two add to one row.
    const auto part = std::min(kTermsAtATime, (width + at::get_num_threads() - 1) / at::get_num_threads());
    parallel_for(0, (width + part - 1) / std::max<int64_t>(1, part), 1, [&](int64_t from, int64_t to) {
      std::vector<double> sums(static_cast<size_t>(part));
      for (int64_t slice = from; slice < to; ++slice) {
        const auto begin = slice * part, end = std::min(width, begin + part);
        for (const auto& run : runs) {
          if (c[run.sample] == 0) continue;
          std::fill(sums.begin(), sums.end(), 0);
          add_run<scalar_t>(run, g_BTD, begin, end, sums.data());
          add_terms(sums.data(), c[run.sample], weights.spacing, end - begin, table + run.token * width + begin);
        }
      }
    });
  });
}

void add_layer(const nn::EmbeddingGrad& grad, const SampleWeights& weights, nn::GradientSink& sink) {
  auto table = buffer_of(*grad.table, sink);
  if (!sink.written(*grad.table)) table.zero_();
  if (table.is_meta() && !nn::few_launches(grad.g_BTD)) {
    say_shapes(grad.g_BTD, grad.g_BTD, /*adds=*/true);
  } else if (nn::few_launches(grad.g_BTD) && grad.ids_BT.numel() > 0) {
    const auto [sums_BTD, tokens_BT, positions_BT] = token_sums(grad);
    table.index_add_(0, tokens_BT.reshape({-1}), terms_of(sums_BTD.flatten(1), weights).view({-1, table.size(1)}));
  } else {
    add_lookups(grad, weights, table);
  }
  sink.mark_written(*grad.table);
}

}  // namespace

double sum_spacing(double clip_norm) { return std::ldexp(1.0, std::ilogb(clip_norm) - kBitsBelow); }

void add_terms_of(const at::Tensor& into_N, const at::Tensor& gradients_BN, const SampleWeights& weights, bool adds) {
  SHADE_REQUIRE(into_N.numel() == gradients_BN.size(1), "samples' gradients have ", gradients_BN.size(1),
                " elements and the weight they are summed for has ", into_N.numel(),
                "; a layer must report gradients of its weight's shape");
  if (nn::few_launches(gradients_BN)) return add_by_device(into_N, gradients_BN, weights, adds);
  if (into_N.is_meta()) return say_shapes(into_N, gradients_BN, adds);
  const auto x_BN = gradients_BN.stride(1) == 1 ? gradients_BN : gradients_BN.contiguous();
  const auto samples = x_BN.size(0), count = into_N.numel(), apart = x_BN.stride(0);
  const auto* const c = weights.c_B.const_data_ptr<double>();
  auto* const into = into_N.data_ptr<double>();
  const bool past_caches = !adds && count >= kMoreThanCaches;
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, x_BN.scalar_type(), "exact sum", [&] {
    const auto* const x = x_BN.const_data_ptr<scalar_t>();
    parallel_for(0, count, 16 * kTermsAtATime, [&](int64_t from, int64_t to) {
      alignas(64) double tile[kTermsAtATime];
      for (int64_t at = from; at < to; at += kTermsAtATime) {
        const auto size = std::min(kTermsAtATime, to - at);
        auto* const sums = past_caches ? tile : into + at;
        bool written = adds;
        for (int64_t b = 0; b < samples; ++b) {
          if (c[b] == 0) continue;
          add_terms(x + b * apart + at, c[b], weights.spacing, size, sums, written);
          written = true;
        }
        if (!written) std::fill_n(sums, size, 0.0);
        if (past_caches) copy_past_caches(sums, size, into + at);
      }
    });
  });
}

void add_clipped(const nn::LayerGrad& grad, const SampleWeights& weights, nn::GradientSink& sink) {
  std::visit([&](const auto& kind) { add_layer(kind, weights, sink); }, grad);
}

void add_clipped(const SampleGradients& grad, const SampleWeights& weights, nn::GradientSink& sink) {
  const auto buffer = buffer_of(*grad.weight, sink);
  auto rows = buffer.view({buffer.size(0), -1});
  if (grad.gradients_B.dim() > 2) rows = rows.narrow(0, grad.row, grad.gradients_B.size(1));  // else a whole vector
  add_terms_of(rows.view({-1}), grad.gradients_B.flatten(1), weights, sink.written(*grad.weight));
  if (grad.last) sink.mark_written(*grad.weight);
}

}  // namespace shade::privacy
