// The released sum: gradients plus noise, rounded to multiples of a power of two that depends on the deviation alone.
//
// Sum and noise are added to 48 bits before they are rounded, so what is released has no low bits that depend on how
// either was computed. The rounding is a function of the noisy sum, hence costs no privacy, and adds a variance of
// spacing^2 / 12, 8e-8 of the noise's at most. A sum beyond 2^24 spacings (8192 deviations at least) is no longer exact
// in fp32 at that spacing: it is rounded to fp32, a coarser grid.
#pragma once

#include <cstdint>

#include "shade/privacy/double_word.h"
#include "shade/privacy/normal.h"

namespace shade::privacy {

// The spacing of released numbers is 2 to the power of this: by the deviation alone, so public.
int grid_exponent(double deviation);

struct Grid {
  explicit Grid(double deviation);  // within [2^-100, 2^100]

  float spacing;     // 2^-11 to 2^-10 deviations
  float inverse;     // 1 / spacing
  DoubleWord scale;  // deviation / spacing, in [1024, 2048)
};

// sums[i] becomes sums[i] + deviation * drawn[first + i] on the grid, for i below count.
void add_on_grid(const Grid& grid, const Normals& drawn, int64_t first, int64_t count, float* sums,
                 Variant variant = fastest());
void add_on_grid(const Grid& grid, const Normals& drawn, int64_t first, int64_t count, double* sums,
                 Variant variant = fastest());

}  // namespace shade::privacy
