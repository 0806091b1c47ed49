#include "shade/data/gap.h"

#include <bit>
#include <cmath>
#include <vector>

#include "shade/base/error.h"

namespace shade::data {
namespace {

constexpr uint64_t kSmallest = uint64_t{1} << 44;  // below, the bits beyond the 64th change ln U by more than 2^-45
constexpr int kMostWords = 512;                    // the chance to need more is below 2^-15,000

// 2 atanh(s) for |s| <= 0.172; relative error below 2^-50.
double twice_atanh(double s) {
  const double z = s * s;
  double series = 0;
  for (int k = 10; k > 0; --k) series = (series + 1.0 / (2 * k + 1)) * z;
  return 2 * s * (1 + series);
}

// ln x for normal positive x, off by 2^-50 (1 + |ln x|) at most: x = m 2^e with m in [sqrt(1/2), sqrt(2)).
double logarithm(double x) {
  constexpr auto kRootHalf = std::bit_cast<uint64_t>(0.70710678118654752);
  const auto shifted = std::bit_cast<uint64_t>(x) - kRootHalf;
  const auto exponent = static_cast<int64_t>(shifted) >> 52;
  const double m = std::bit_cast<double>((shifted & 0x000fffffffffffffu) + kRootHalf);
  return static_cast<double>(exponent) * 0.69314718055994531 + twice_atanh((m - 1) / (m + 1));
}

// Relative error below 2^-47.
double log_of_complement(double q) { return q < 0.25 ? -twice_atanh(q / (2 - q)) : logarithm(1 - q); }

}  // namespace

Gap::Gap(double rate) : rate_(rate), log_stay_(log_of_complement(rate)) {
  SHADE_CHECK(rate > 0 && rate < 1, "no gaps are drawn at rate ", rate);
}

// Of ln u: 2^-45 for the bits that follow, 2^-52 for the rounding of u, 2^-50 (1 + |ln u|) for the logarithm; of their
// quotient, and its rounding: 2^-46 of itself. So the quotient is off by less than 2^-44 (1 + |ln u|) / |log_stay|;
// what is taken is 4 times that, which covers the rounding of the ends, too (docs/noise.md).
std::optional<int64_t> Gap::by_words(uint64_t n, int64_t most) const {
  if (n < kSmallest) return std::nullopt;
  const double log_u = logarithm((static_cast<double>(n) + 0.5) * 0x1p-64);
  const double quotient = log_u / log_stay_, error = 0x1p-42 * (1 + std::abs(log_u)) / std::abs(log_stay_);
  const double from = quotient - error, to = quotient + error;
  if (from >= static_cast<double>(most)) return most;
  if (from < 0 ? to >= 1 : std::floor(from) != std::floor(to)) return std::nullopt;
  return static_cast<int64_t>(from < 0 ? 0 : std::floor(from));
}

std::optional<int64_t> Gap::by_intervals(std::span<const uint32_t> words, int count, int64_t most) const {
  constexpr int kMorePrecision = 64;
  const auto log_u = exact::Enclosure::fraction(words, count).logarithm(kMorePrecision);
  const auto quotient = log_u / (-exact::Enclosure(rate_)).logarithm_of_one_plus(count + kMorePrecision);
  if (quotient.low() >= static_cast<double>(most)) return most;
  const auto whole = quotient.floor();
  return whole ? std::optional(static_cast<int64_t>(*whole)) : std::nullopt;
}

int64_t Gap::draw(KeyedBits& bits, int64_t most) const {
  const auto n = bits.next();
  if (const auto gap = by_words(n, most)) return *gap;
  std::vector<uint32_t> words;
  for (auto next = n;; next = bits.next()) {
    words.push_back(static_cast<uint32_t>(next >> 32));
    words.push_back(static_cast<uint32_t>(next));
    const auto count = static_cast<int>(words.size());
    if (const auto gap = by_intervals(words, 32 * count, most)) return *gap;
    SHADE_CHECK(count < kMostWords, "a gap between records is undecided after ", 32 * count,
                " bits: the random bits are not random");
  }
}

}  // namespace shade::data
