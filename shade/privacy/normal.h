// Normal numbers from random words, the same on every machine.
//
// Box and Muller: radius sqrt(-2 ln u) with u = (n + 1/2) 2^-64, direction from another 64 bits. The arithmetic is that
// of double_word.h, no libm, no fp64. The 64 bits are the first ones of infinite strings: whatever follows them, the
// numbers are within 2^-31 deviations of the ideal ones (tools/proof). Where u is below 2^-32 they are not, and the
// numbers are NaN.
#pragma once

#include <cstdint>

#include "shade/privacy/variant.h"

namespace shade::privacy {

constexpr int kNormalChunk = 256;
constexpr int kNormalWords = 2 * kNormalChunk;

struct Normals {  // number i is high[i] + low[i]
  alignas(64) float high[kNormalChunk];
  alignas(64) float low[kNormalChunk];
};

// Numbers i and 128 + i come from words i and 128 + i (radius, upper half first), 256 + i and 384 + i (direction).
void normals(const uint32_t words[kNormalWords], Normals& out, Variant variant = fastest());

}  // namespace shade::privacy
