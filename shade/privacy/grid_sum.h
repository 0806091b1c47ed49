// A sum and its noise on the grid of grid.h, number by number, where the fast path can tell.
#pragma once

#include "shade/privacy/grid.h"

namespace shade::privacy {

// Of the value that is rounded, in spacings: more than it can be off (2^-20.6, tools/proof/certificate.json) for radii
// that need no further bits and values up to kLargestTotal. Two numbers of a million are nearer than that to the middle
// between two multiples.
inline constexpr double kMargin = 0x1p-20;
inline constexpr double kLargestTotal = 0x1p30;  // spacings, of the value that is rounded

struct GridSum {
  double value;
  bool decided;  // otherwise `value` is the sum as it was, and ideal_normal.h decides
};

// sum + deviation * number, on the grid. A number that is not one (NaN) decides nothing.
template <bool fused>
SHADE_INLINE GridSum sum_on_grid(const Grid& grid, double sum, DoubleWord number, double margin = kMargin) {
  const auto noise = product<fused>(grid.scale, number);
  const double exact = static_cast<double>(noise.high) + static_cast<double>(noise.low);
  const double total = sum * static_cast<double>(grid.inverse) + exact;
  const double whole = nearest_integer(total);
  const bool decided = magnitude(total - whole) <= 0.5 - margin && magnitude(total) <= kLargestTotal;
  // Plus 0: a zero has no sign, which would be that of a number nearer to it than the error.
  return {decided ? whole * static_cast<double>(grid.spacing) + 0.0 : sum, decided};
}

}  // namespace shade::privacy
