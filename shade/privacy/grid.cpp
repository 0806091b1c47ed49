#include "shade/privacy/grid.h"

#include <cmath>

#include "shade/base/error.h"
#include "shade/privacy/grid_sum.h"

namespace shade::privacy {
namespace {

template <bool fused>
SHADE_INLINE void add(Grid grid, const float* high, const float* low, int64_t count, double* __restrict sums,
                      uint8_t* __restrict undecided) {
  SHADE_INTERLEAVED
  for (int64_t i = 0; i < count; ++i) {
    const auto sum = sum_on_grid<fused>(grid, sums[i], {high[i], low[i]});
    sums[i] = sum.value;
    undecided[i] = sum.decided ? 0 : 1;
  }
}

#if SHADE_X86_VARIANTS
SHADE_AVX2 void add_avx2(const Grid& grid, const float* high, const float* low, int64_t count, double* sums,
                         uint8_t* undecided) {
  add<true>(grid, high, low, count, sums, undecided);
}
SHADE_AVX512 void add_avx512(const Grid& grid, const float* high, const float* low, int64_t count, double* sums,
                             uint8_t* undecided) {
  add<true>(grid, high, low, count, sums, undecided);
}
#endif

}  // namespace

Grid::Grid(double deviation) {
  SHADE_REQUIRE(deviation >= 0x1p-100 && deviation <= 0x1p100,
                "the deviation of the noise must lie within 2^-100 and 2^100 (or be 0, for no noise), not ", deviation,
                ": check sigma and the clip norm");
  const int exponent = std::ilogb(deviation) - 10;
  spacing = std::ldexp(1.0f, exponent);
  inverse = std::ldexp(1.0f, -exponent);
  const double ratio = std::ldexp(deviation, -exponent);
  scale.high = static_cast<float>(ratio);
  const double rest = ratio - static_cast<double>(scale.high);
  scale.low = static_cast<float>(rest);
  if (static_cast<double>(scale.low) < rest) scale.low = std::nextafter(scale.low, INFINITY);
}

void add_on_grid(const Grid& grid, const Normals& drawn, int64_t first, int64_t count, double* sums, uint8_t* undecided,
                 Variant variant) {
  const float *high = drawn.high + first, *low = drawn.low + first;
#if SHADE_X86_VARIANTS
  if (variant == Variant::avx512) return add_avx512(grid, high, low, count, sums, undecided);
  if (variant == Variant::avx2) return add_avx2(grid, high, low, count, sums, undecided);
#endif
  add<SHADE_BASELINE_FUSED>(grid, high, low, count, sums, undecided);
}

}  // namespace shade::privacy
