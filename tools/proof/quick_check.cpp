// The noise's fast path against libm's functions of 64 bits: what tools/proof/mutate compiles for each fault. Ends with
// status 1 and a line if an error is above the margin, or a sum is rounded wrongly or decided where it may not be.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numbers>
#include <random>

#include "shade/privacy/grid_sum.h"
#include "shade/privacy/normal_pair.h"

using namespace shade::privacy;

namespace {

struct Point {
  long double along, across;
};

Point ideal(uint64_t n, uint64_t direction) {
  const auto half = [](uint64_t of) { return (static_cast<long double>(of) + 0.5L) * 0x1p-64L; };
  const long double radius = std::sqrt(-2 * (n >> 63 != 0 ? std::log1p(-half(~n)) : std::log(half(n))));
  const auto inside = static_cast<long double>(static_cast<int64_t>(direction << 2) >> 2) + 0.5L;
  const long double angle = inside * 0x1p-61L * std::numbers::pi_v<long double> / 4;
  const long double s = std::sin(angle), c = (direction >> 63 != 0 ? -1 : 1) * std::cos(angle);
  return (direction >> 62 & 1u) != 0 ? Point{radius * s, radius * c} : Point{radius * c, radius * s};
}

[[noreturn]] void wrong(const char* what, long double by) {
  std::printf("%s: %.3Lg\n", what, by);
  std::exit(1);
}

struct GridParts {  // of a Grid, whose constructor needs the library
  float spacing, inverse;
  DoubleWord scale;
};

template <bool fused>
void check(std::mt19937_64& random) {
  for (int round = 0; round < 200'000; ++round) {
    uint64_t n = random(), direction = random();
    if (round % 4 == 1) n >>= random() % 32;
    if (round % 4 == 2) n = ~(n >> random() % 64);
    if (round % 5 == 3) direction = (direction & 0xc000000000000000u) | (direction << 2 >> 2 >> random() % 62);
    if (round % 5 == 4) direction |= 0x3fff000000000000u;
    const auto radius = known_radius<fused>(static_cast<uint32_t>(n >> 32), static_cast<uint32_t>(n));
    if ((n >> 32 == 0) != std::isnan(radius.high)) wrong("radii that need more bits", 0);
    if (n >> 32 == 0) continue;
    const auto pair =
        normal_pair<fused>(radius, static_cast<uint32_t>(direction >> 32), static_cast<uint32_t>(direction));
    const auto exact = ideal(n, direction);
    auto made = GridParts{0x1p-10f, 0x1p10f, {1024 + static_cast<float>(random() % 0x7fffff) * 0x1p-13f, 0}};
    made.scale.low = (static_cast<float>(random() % 0x1000000) - 0x1p23f) * 0x1p-37f;
    const auto grid = std::bit_cast<Grid>(made);
    const auto scale = static_cast<long double>(grid.scale.high) + static_cast<long double>(grid.scale.low);
    for (const bool second : {false, true}) {
      const auto number = second ? pair.across : pair.along;
      const auto x = second ? exact.across : exact.along;
      const auto error = std::abs(static_cast<long double>(number.high) + static_cast<long double>(number.low) - x);
      if (!(error * 2048 < 0.5L * static_cast<long double>(kMargin))) wrong("error of a number, in deviations", error);
      // Sums anywhere, and sums that bring the value to the middle between two integers or next to the margin.
      double sum =
          std::ldexp(static_cast<double>(static_cast<int64_t>(random())), -63 + static_cast<int>(random() % 34)) *
          0x1p-4;
      const int kind = round % 3;
      if (kind != 0) {
        const double offset = kind == 1 ? 0 : (random() % 2 == 0 ? 1.5 : -1.5) * kMargin;
        sum =
            static_cast<double>((std::floor(static_cast<long double>(sum) * 1024) + 0.5L + offset - scale * x) / 1024);
      }
      const auto found = sum_on_grid<fused>(grid, sum, number);
      const long double value = static_cast<long double>(sum) * 1024 + scale * x, whole = std::nearbyint(value);
      const bool small = std::abs(static_cast<long double>(sum)) * 1024 < 0x1p20L;
      if (found.decided && found.value * 1024 != static_cast<double>(whole))
        wrong("a sum rounded to another integer", value);
      if (!found.decided && found.value != sum) wrong("an undecided sum that changed", value);
      if (small && kind == 1 && found.decided) wrong("a sum decided in the middle between two integers", value);
      if (small && kind == 2 && !found.decided) wrong("a sum undecided beyond the margin", value);
    }
  }
}

}  // namespace

int main() {
  std::mt19937_64 random(1);
  check<true>(random);
  check<false>(random);
}
