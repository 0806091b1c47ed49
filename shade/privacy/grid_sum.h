// A sum and its noise on the grid of grid.h, number by number.
#pragma once

#include "shade/privacy/grid.h"

namespace shade::privacy {

// The nearest integer, the even one of two; of numbers beyond 2^22 some integer within 2^-22 of their size.
SHADE_INLINE float nearest(float x) { return (x + 0x1.8p23f) - 0x1.8p23f; }

// sum + deviation * number, on the grid.
template <bool fused>
SHADE_INLINE float sum_on_grid(const Grid& grid, float sum, DoubleWord number) {
  const auto noise = product<fused>(grid.scale, number);
  const auto total = exact_sum(sum * grid.inverse, noise.high);
  const float whole = nearest(total.high);
  return (whole + nearest((total.high - whole) + (total.low + noise.low))) * grid.spacing;
}

template <bool fused>
SHADE_INLINE double sum_on_grid(const Grid& grid, double sum, DoubleWord number) {
  const auto noise = product<fused>(grid.scale, number);
  const double exact = static_cast<double>(noise.high) + static_cast<double>(noise.low);
  return nearest_integer(sum * static_cast<double>(grid.inverse) + exact) * static_cast<double>(grid.spacing);
}

}  // namespace shade::privacy
