#include "shade/privacy/ideal_normal.h"

#include <cmath>
#include <utility>

#include "shade/base/error.h"
#include "shade/privacy/noise_lane.h"

namespace shade::privacy {
namespace {

using exact::Enclosure;

constexpr int kMorePrecision = 40;  // bits of the arithmetic beyond those of its operands
constexpr size_t kMostWords = 512;  // of a string; the chance to need more is below 2^-15,000

bool digit(std::span<const uint32_t> words, int at) { return (words[0] >> (31 - at) & 1) != 0; }

}  // namespace

Enclosure ideal_radius(std::span<const uint32_t> words, int bits) {
  return (-Enclosure::fraction(words, bits).logarithm(kMorePrecision)).scaled(1).square_root();
}

IdealDirection ideal_direction(std::span<const uint32_t> words, int bits) {
  SHADE_CHECK(bits >= 3, "a direction has at least 3 bits");
  const bool end = digit(words, 0), axis = digit(words, 1), negative = digit(words, 2);
  const auto x = Enclosure::fraction(words, bits).scaled(3) + (-4.0 * end - 2.0 * axis - 2.0 * negative);
  auto [cosine, sine] = x.quarter_turn(kMorePrecision);
  if (end) cosine = -cosine;
  if (axis) std::swap(cosine, sine);
  return {std::move(cosine), std::move(sine)};
}

Enclosure ideal_steps(const Grid& grid, double sum, const Enclosure& number) {
  const double scale = static_cast<double>(grid.scale.high) + static_cast<double>(grid.scale.low);  // exactly
  return Enclosure(sum).scaled(-std::ilogb(grid.spacing)) + Enclosure(scale) * number;
}

PairBits pair_bits(const uint32_t (&key)[8], int64_t element) {
  const auto chunk = static_cast<uint64_t>(element / kNormalChunk);
  const auto pair = static_cast<uint32_t>(element % (kNormalChunk / 2)), lane = pair % kLanes, word = pair / kLanes;
  const auto two_words = [&](uint64_t block) {
    uint32_t words[16];
    chacha20_words(key, block, words);
    return std::vector{words[word], words[word + 8]};
  };
  const auto more = [&key, counter = chunk * (kNormalChunk / 2) + pair, nonce = 0u](PairBits& bits) mutable {
    uint32_t words[16];
    chacha20_words(key, counter, words, ++nonce);
    bits.radius.insert(bits.radius.end(), words, words + 8);
    bits.direction.insert(bits.direction.end(), words + 8, words + 16);
  };
  return {two_words(2 * kLanes * chunk + lane), two_words(2 * kLanes * chunk + kLanes + lane), more};
}

double ideal_sum(const Grid& grid, double sum, bool second, PairBits bits) {
  if (!std::isfinite(sum)) return sum;
  for (;; bits.extend(bits)) {
    SHADE_CHECK(bits.radius.size() <= kMostWords, "a number of the noise is undecided after ", 32 * bits.radius.size(),
                " bits: the random bits are not random");
    const auto known = static_cast<int>(32 * bits.radius.size());
    const auto direction = ideal_direction(bits.direction, known);
    const auto number = ideal_radius(bits.radius, known) * (second ? direction.across : direction.along);
    if (const auto steps = ideal_steps(grid, sum, number).nearest())
      return *steps * static_cast<double>(grid.spacing) + 0.0;  // zero has no sign
  }
}

double ideal_sum(const Grid& grid, double sum, const uint32_t (&key)[8], int64_t element) {
  return ideal_sum(grid, sum, element % kNormalChunk >= kNormalChunk / 2, pair_bits(key, element));
}

}  // namespace shade::privacy
