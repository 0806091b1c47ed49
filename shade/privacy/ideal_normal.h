// The ideal noise, of which the fast path (normal_pair.h, grid_sum.h) computes all but a few numbers: X from infinitely
// many random bits, and sum + deviation X, rounded once.
//
// The 64 bits of a radius and the 64 of a direction are the first of two infinite strings. The fast path knows its
// error; where a border of the grid is nearer than that, the intervals here decide, with as many more bits as it takes.
// Together they give the nearest multiple of the spacing to sum + deviation X for an ideal X: docs/noise.md.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "shade/exact/enclosure.h"
#include "shade/privacy/grid.h"

namespace shade::privacy {

// sqrt(-2 ln U), by the first digits of U.
exact::Enclosure ideal_radius(std::span<const uint32_t> words, int bits);

// The factors of the radius that give the two numbers of a pair: the point of the unit circle that the string names by
// the end of an axis (1 bit), the axis (1 bit) and x in [-1, 1], an angle of x pi/4 from there (the rest, signed).
struct IdealDirection {
  exact::Enclosure along, across;
};
IdealDirection ideal_direction(std::span<const uint32_t> words, int bits);

// (sum + deviation number) / spacing.
exact::Enclosure ideal_steps(const Grid& grid, double sum, const exact::Enclosure& number);

// The two strings of a pair as far as they are known, and how to get more of them.
struct PairBits {
  std::vector<uint32_t> radius, direction;  // as many words of both
  std::function<void(PairBits&)> extend;
};

// sum + deviation X on the grid, X the first or the second number of the pair. A sum that is not finite stays.
double ideal_sum(const Grid& grid, double sum, bool second, PairBits bits);

// The strings of element `element` of the weight whose subkey is `key`: its words of the chunk (normal.h), then blocks
// of ChaCha20 with the pair's number as counter and that of the extension as nonce, half of a block for each string.
PairBits pair_bits(const uint32_t (&key)[8], int64_t element);
// The same sum, by them.
double ideal_sum(const Grid& grid, double sum, const uint32_t (&key)[8], int64_t element);

}  // namespace shade::privacy
