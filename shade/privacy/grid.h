// The released sum: gradients plus noise, rounded to multiples of a power of two that depends on the deviation alone.
//
// What is rounded is the real number sum + deviation X of an ideal X (docs/noise.md). The rounding is a function of it,
// hence costs no privacy, and adds a variance of spacing^2 / 12, 8e-8 of the noise's at most. Sums are fp64; as fp32,
// multiples beyond 2^24 spacings (8192 deviations at least) are rounded again.
#pragma once

#include <cstdint>

#include "shade/privacy/double_word.h"
#include "shade/privacy/normal.h"

namespace shade::privacy {

struct Grid {
  explicit Grid(double deviation);  // within [2^-100, 2^100]

  float spacing;     // 2^-11 to 2^-10 deviations
  float inverse;     // 1 / spacing
  DoubleWord scale;  // at least deviation / spacing, by 2^-38 at most: that times the spacing is what noise really has
};

// sums[i] becomes sums[i] + deviation * drawn[first + i] on the grid, for i below count, where the fast path can tell;
// otherwise it stays, and undecided[i] is 1 instead of 0.
void add_on_grid(const Grid& grid, const Normals& drawn, int64_t first, int64_t count, double* sums, uint8_t* undecided,
                 Variant variant = fastest());

}  // namespace shade::privacy
