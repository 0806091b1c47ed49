// Where a patch lies in its image: learned vectors, or fixed waves of its column and row.
#pragma once

#include <cstdint>
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

}  // namespace shade::nn
