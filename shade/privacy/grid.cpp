#include "shade/privacy/grid.h"

#include <cmath>

#include "shade/base/error.h"
#include "shade/privacy/grid_sum.h"

namespace shade::privacy {
namespace {

template <bool fused>
SHADE_INLINE void add(Grid grid, const float* high, const float* low, int64_t count, float* __restrict sums) {
  SHADE_INTERLEAVED
  for (int64_t i = 0; i < count; ++i) sums[i] = sum_on_grid<fused>(grid, sums[i], {high[i], low[i]});
}

template <bool fused>
SHADE_INLINE void add(Grid grid, const float* high, const float* low, int64_t count, double* __restrict sums) {
  for (int64_t i = 0; i < count; ++i) sums[i] = sum_on_grid<fused>(grid, sums[i], {high[i], low[i]});
}

#if SHADE_X86_VARIANTS
template <class Real>
SHADE_AVX2 void add_avx2(const Grid& grid, const float* high, const float* low, int64_t count, Real* sums) {
  add<true>(grid, high, low, count, sums);
}
template <class Real>
SHADE_AVX512 void add_avx512(const Grid& grid, const float* high, const float* low, int64_t count, Real* sums) {
  add<true>(grid, high, low, count, sums);
}
#endif

template <class Real>
void dispatch(const Grid& grid, const Normals& drawn, int64_t first, int64_t count, Real* sums, Variant variant) {
  const float *high = drawn.high + first, *low = drawn.low + first;
#if SHADE_X86_VARIANTS
  if (variant == Variant::avx512) return add_avx512(grid, high, low, count, sums);
  if (variant == Variant::avx2) return add_avx2(grid, high, low, count, sums);
#endif
  add<SHADE_BASELINE_FUSED>(grid, high, low, count, sums);
}

}  // namespace

int grid_exponent(double deviation) { return std::ilogb(deviation) - 10; }

Grid::Grid(double deviation) {
  SHADE_REQUIRE(deviation >= 0x1p-100 && deviation <= 0x1p100,
                "the deviation of the noise must lie within 2^-100 and 2^100 (or be 0, for no noise), not ", deviation,
                ": check sigma and the clip norm");
  const int exponent = grid_exponent(deviation);
  spacing = std::ldexp(1.0f, exponent);
  inverse = std::ldexp(1.0f, -exponent);
  const double ratio = std::ldexp(deviation, -exponent);
  scale.high = static_cast<float>(ratio);
  scale.low = static_cast<float>(ratio - static_cast<double>(scale.high));
}

void add_on_grid(const Grid& grid, const Normals& drawn, int64_t first, int64_t count, float* sums, Variant variant) {
  dispatch(grid, drawn, first, count, sums, variant);
}

void add_on_grid(const Grid& grid, const Normals& drawn, int64_t first, int64_t count, double* sums, Variant variant) {
  dispatch(grid, drawn, first, count, sums, variant);
}

}  // namespace shade::privacy
