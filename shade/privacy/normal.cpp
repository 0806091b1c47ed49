#include "shade/privacy/normal.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "shade/base/sanitizer.h"

#if defined(__x86_64__) && !SHADE_SANITIZED
#define SHADE_WIDEST __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define SHADE_WIDEST
#endif

namespace shade::privacy {
namespace {

using Lanes = uint32_t __attribute__((vector_size(64)));  // one word of sixteen blocks

#define SHADE_ROTATE(x, n) x = (x << n) | (x >> (32 - n))
#define SHADE_QUARTER(a, b, c, d) \
  a += b, d ^= a;                 \
  SHADE_ROTATE(d, 16);            \
  c += d, b ^= c;                 \
  SHADE_ROTATE(b, 12);            \
  a += b, d ^= a;                 \
  SHADE_ROTATE(d, 8);             \
  c += d, b ^= c;                 \
  SHADE_ROTATE(b, 7)

// ln(x) for normal positive x: x = m 2^e with m in [sqrt(1/2), sqrt(2)), ln m = 2 atanh(s), s = (m - 1) / (m + 1).
inline float logarithm(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const auto shifted = bits - 0x3f3504f3u;  // the bits of sqrt(1/2)
  const auto exponent = static_cast<int32_t>(shifted) >> 23;
  const float m = std::bit_cast<float>((shifted & 0x007fffffu) + 0x3f3504f3u);
  const float s = (m - 1.0f) / (m + 1.0f);
  const float z = s * s;
  const float series = 2.0f + z * (0.66666667f + z * (0.4f + z * (0.28571429f + z * 0.22222222f)));
  return static_cast<float>(exponent) * 0.69314718f + s * series;
}

// cos and sin of t in [-pi/4, pi/4].
inline float cosine(float t) {
  const float z = t * t;
  return 1.0f + z * (-0.5f + z * (0.041666667f + z * (-0.0013888889f + z * 2.4801587e-5f)));
}
inline float sine(float t) {
  const float z = t * t;
  return t + t * z * (-0.16666667f + z * (0.0083333333f + z * (-1.9841270e-4f + z * 2.7557319e-6f)));
}

}  // namespace

SHADE_WIDEST
void chacha20_chunk(const uint8_t key[32], uint64_t chunk, uint32_t words[kNormalChunk]) {
  uint32_t k[8];
  std::memcpy(k, key, 32);  // little-endian, as all machines this is built for
  const Lanes lane{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const uint64_t counter = 16 * chunk;
  Lanes in[16] = {};
  in[0] += 0x61707865u, in[1] += 0x3320646eu, in[2] += 0x79622d32u, in[3] += 0x6b206574u;
  for (int i = 0; i < 8; ++i) in[4 + i] += k[i];
  in[12] = lane + static_cast<uint32_t>(counter);  // no carry: a chunk begins at a multiple of 16
  in[13] += static_cast<uint32_t>(counter >> 32);
  Lanes a0 = in[0], a1 = in[1], a2 = in[2], a3 = in[3], b0 = in[4], b1 = in[5], b2 = in[6], b3 = in[7];
  Lanes c0 = in[8], c1 = in[9], c2 = in[10], c3 = in[11], d0 = in[12], d1 = in[13], d2 = in[14], d3 = in[15];
  for (int round = 0; round < 10; ++round) {
    SHADE_QUARTER(a0, b0, c0, d0);
    SHADE_QUARTER(a1, b1, c1, d1);
    SHADE_QUARTER(a2, b2, c2, d2);
    SHADE_QUARTER(a3, b3, c3, d3);
    SHADE_QUARTER(a0, b1, c2, d3);
    SHADE_QUARTER(a1, b2, c3, d0);
    SHADE_QUARTER(a2, b3, c0, d1);
    SHADE_QUARTER(a3, b0, c1, d2);
  }
  const Lanes out[16] = {a0 + in[0],  a1 + in[1],  a2 + in[2],  a3 + in[3], b0 + in[4],  b1 + in[5],
                         b2 + in[6],  b3 + in[7],  c0 + in[8],  c1 + in[9], c2 + in[10], c3 + in[11],
                         d0 + in[12], d1 + in[13], d2 + in[14], d3 + in[15]};
  std::memcpy(words, out, sizeof out);
}

SHADE_WIDEST
void normals(const uint32_t words[kNormalChunk], float out[kNormalChunk]) {
  constexpr int kPairs = kNormalChunk / 2;
  for (int i = 0; i < kPairs; ++i) {
    // In (0, 1], with 31 bits: reaches 6.7 deviations.
    const float u = (static_cast<float>(static_cast<int32_t>(words[i] >> 1)) + 0.5f) * 0x1p-31f;
    const float radius = std::sqrt(-2.0f * logarithm(u));
    // The angle: two bits choose the quadrant, the others where in it.
    const uint32_t angle = words[kPairs + i];
    const auto inside = static_cast<int32_t>(angle & 0x3fffffffu) - 0x20000000;
    const float t = (static_cast<float>(inside) + 0.5f) * (0.78539816f * 0x1p-29f);
    const float c = cosine(t), s = sine(t);
    const bool swap = ((angle >> 30) & 1u) != 0, negate = (angle >> 31) != 0;
    const float signed_radius = negate ? -radius : radius;
    out[i] = (swap ? s : c) * signed_radius;
    out[kPairs + i] = (swap ? -c : s) * signed_radius;
  }
}

}  // namespace shade::privacy
