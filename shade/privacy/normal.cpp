#include "shade/privacy/normal.h"

#include <bit>
#include <cmath>

namespace shade::privacy {
namespace {

// ln(x) for normal positive x: x = m 2^e with m in [sqrt(1/2), sqrt(2)), ln m = 2 atanh(s), s = (m - 1) / (m + 1).
inline float logarithm(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const auto shifted = bits - 0x3f3504f3u;  // the mantissa of sqrt(1/2)
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

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
__attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#endif
void normals(const uint32_t* bits, int64_t blocks, float* out) {
  for (int64_t block = 0; block < blocks; ++block) {
    const uint32_t* word = bits + 16 * block;
    float* to = out + 16 * block;
    for (int i = 0; i < 8; ++i) {
      // (0, 1]: 24 bits and a half would lose the tail; 32 bits reach 6.7 deviations.
      const float u = (static_cast<float>(static_cast<int32_t>(word[i] >> 1)) + 0.5f) * 0x1p-31f;
      const float radius = std::sqrt(-2.0f * logarithm(u));
      // The angle: two bits choose the quadrant, the others where in it.
      const uint32_t angle = word[8 + i];
      const auto inside = static_cast<int32_t>(angle & 0x3fffffffu) - 0x20000000;
      const float t = (static_cast<float>(inside) + 0.5f) * (0.78539816f * 0x1p-29f);
      const float c = cosine(t), s = sine(t);
      const bool swap = (angle >> 30) & 1u, negate = (angle >> 31) != 0;
      const float x = swap ? s : c, y = swap ? c : s;
      const float sign = negate ? -radius : radius;
      to[i] = x * sign;
      to[8 + i] = (swap ? -y : y) * sign;
    }
  }
}

}  // namespace shade::privacy
