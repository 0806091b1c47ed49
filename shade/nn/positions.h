// Where a patch lies in its image (learned vectors, or fixed waves of its column and row) and a token in its text
// (rotary embedding).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>

#include "shade/base/names.h"

namespace shade::nn {

enum class Positions { automatic, learned, sincos };  // automatic: what the model says
inline std::span<const Name<Positions>> names_of(Positions) {
  static constexpr Name<Positions> kNames[] = {
      {"auto", Positions::automatic}, {"learned", Positions::learned}, {"sincos", Positions::sincos}};
  return kNames;
}

// Element `index` of the fixed table [grid * grid, width] of DiT and MAE: the first half of a row are waves of the
// patch's column, the second half of its row; each half sines, then cosines, of position / 10000^(i / (width / 4)).
// `width` divides by 4.
double sincos_position(int64_t index, int64_t grid, int64_t width);

// Rotary position embedding: pairs (x_i, x_{i + d/2}) of a head turned by an angle that grows with the position.

// Llama-3's stretching of the low frequencies for contexts longer than the original.
struct RopeScaling {
  double factor = 8;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int64_t original_max_position = 8192;
};

struct RopeOptions {
  int64_t head_dim = 64;
  double theta = 10000;
  std::optional<RopeScaling> scaling;
};

// cos and sin [T, head_dim / 2] for T positions from `first` on, computed in fp32 at least, given in the type and on
// the device of `like`. On accelerators [T, head_dim], for both halves at once: cos twice, and sin with its signs.
struct RopeTable {
  at::Tensor cos_TH, sin_TH;
};
RopeTable rope_table(const RopeOptions& options, int64_t positions, const at::TensorOptions& like, int64_t first = 0);

// x [B, T, heads, head_dim]. Keeps only the table: backward turns back.
at::Tensor rotate(const at::Tensor& x, const RopeTable& table);

}  // namespace shade::nn
