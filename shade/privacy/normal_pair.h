// A pair of normal numbers from four random words: the arithmetic of normal.h, number by number.
#pragma once

#include <bit>
#include <cstdint>

#include "shade/privacy/double_word.h"

namespace shade::privacy {

// (n + 1/2) `unit` for the signed integer n of `bits` bits that ends with `low` and begins in `high`: to 48 bits of the
// number itself, however small. In parts that are exact floats: 24 bits with the sign, 24 bits, and the rest.
template <int bits>
SHADE_INLINE DoubleWord centred(uint32_t high, uint32_t low, float unit) {
  constexpr int kLast = bits - 48, kUpper = 64 - bits;
  const auto first = static_cast<int32_t>(high << kUpper) >> 8;
  const auto second = static_cast<int32_t>((high << (32 - kLast) | low >> kLast) & 0xffffffu);
  const auto third = static_cast<int32_t>(low & ((1u << kLast) - 1));
  constexpr float kSecond = 1u << kLast, kFirst = kSecond * 0x1p24f;
  const auto lower =
      ordered_sum(static_cast<float>(second) * (kSecond * unit), (static_cast<float>(third) + 0.5f) * unit);
  const auto upper = ordered_sum(static_cast<float>(first) * (kFirst * unit), lower.high);
  return {upper.high, upper.low + lower.low};
}

// -2 ln u for u = (n + 1/2) 2^-64, n = 2^32 high + low. With u = m 2^e, m in [sqrt(1/2), sqrt(2)): ln m = 2 atanh(s),
// s = (m - 1) / (m + 1), at most 0.172 in size.
template <bool fused>
SHADE_INLINE DoubleWord twice_negative_logarithm(uint32_t high, uint32_t low) {
  // Read as a signed integer, n gives u - 1 in the upper half of u's range: near 1 that has more bits than u.
  const bool upper = high >= 0x80000000u;
  const auto a = centred<64>(high, low, 0x1p-64f);
  const auto u = ordered_sum(upper ? 1.0f : 0.0f, a.high);
  constexpr uint32_t kRootOfHalf = 0x3f3504f3u;
  const uint32_t shifted = std::bit_cast<uint32_t>(u.high) - kRootOfHalf;
  const int32_t exponent = static_cast<int32_t>(shifted) >> 23;
  const float m = std::bit_cast<float>((shifted & 0x007fffffu) + kRootOfHalf);
  const float m_low = (u.low + a.low) * std::bit_cast<float>(static_cast<uint32_t>(127 - exponent) << 23);
  const bool near_one = upper && exponent == 0;
  const DoubleWord over{near_one ? a.high : m - 1.0f, near_one ? a.low : m_low};
  const auto under = ordered_sum(1.0f, m);
  const auto s = quotient<fused>(over, {under.high, under.low + m_low});
  // -4 atanh(s) / s as a polynomial of s^2 (error below 2^-46), those terms in double words that need it.
  const auto z = product<fused>(s, s);
  auto series = horner({-0x1.249246p-1f, -0x1.57bf28p-28f}, z,
                       -0x1.c71fccp-2f + z.high * (-0x1.7382dcp-2f + z.high * -0x1.546a32p-2f));
  series = horner<fused>({-0x1.99999ap-1f, 0x1.91e62p-27f}, z, series);
  series = horner<fused>({-0x1.555556p+0f, 0x1.555588p-25f}, z, series);
  series = horner<fused>({-4.0f, 0.0f}, z, series);
  const auto of_m = product<fused>(s, series);
  const auto e = static_cast<float>(exponent);
  const auto of_e = product<fused>({e, 0.0f}, {-0x1.62e43p+0f, 0x1.05c61p-28f});  // -2 ln 2
  const auto total = ordered_sum(of_e.high, of_m.high);
  return ordered_sum(total.high, total.low + (of_e.low + of_m.low));
}

// sin(x pi/4), x in (-1, 1); error of the polynomial below 2^-50.
template <bool fused>
SHADE_INLINE DoubleWord sine(DoubleWord x) {
  const auto y = product<fused>(x, x);
  auto series = horner({0x1.50783p-22f, -0x1.2f6934p-49f}, y, -0x1.e30072p-30f + y.high * 0x1.e3f384p-38f);
  series = horner<fused>({-0x1.32d2ccp-15f, -0x1.c5cb64p-40f}, y, series);
  series = horner<fused>({0x1.466bc6p-9f, 0x1.dd61fep-35f}, y, series);
  series = horner<fused>({-0x1.4abbcep-4f, -0x1.896f9p-30f}, y, series);
  series = horner<fused>({0x1.921fb6p-1f, -0x1.777a5cp-26f}, y, series);
  const auto s = product<fused>(x, series);
  return ordered_sum(s.high, s.low);
}

// The positive root of 1 - s^2, s at most sqrt(1/2).
template <bool fused>
SHADE_INLINE DoubleWord cosine_of(DoubleWord s) {
  const auto square = product<fused>(s, s);
  const auto rest = ordered_sum(1.0f, -square.high);
  return square_root<fused>({rest.high, rest.low - square.low});
}

SHADE_INLINE float with_sign(float value, uint32_t sign) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) ^ sign);
}

// The distance of a point of the plane from its middle; `high` and `low` are 64 random bits.
template <bool fused>
SHADE_INLINE DoubleWord normal_radius(uint32_t high, uint32_t low) {
  return square_root<fused>(twice_negative_logarithm<fused>(high, low));
}

struct NormalPair {
  DoubleWord along, across;
};

// The radius where 64 bits tell it well enough, otherwise not a number: below u = 2^-32 the bits beyond them count.
template <bool fused>
SHADE_INLINE DoubleWord known_radius(uint32_t high, uint32_t low) {
  const auto radius = normal_radius<fused>(high, low);
  return {high == 0 ? __builtin_nanf("") : radius.high, radius.low};
}

// Its two coordinates, by another 64 bits. They name the quarter of the circle around one end of an axis: one bit for
// the axis, one for the end, 62 for where in it.
template <bool fused>
SHADE_INLINE NormalPair normal_pair(DoubleWord radius, uint32_t high, uint32_t low) {
  const bool swap = (high & 0x40000000u) != 0;
  const auto s = sine<fused>(centred<62>(high, low, 0x1p-61f));
  auto c = cosine_of<fused>(s);
  c = {with_sign(c.high, high & 0x80000000u), with_sign(c.low, high & 0x80000000u)};
  return {product<fused>({swap ? s.high : c.high, swap ? s.low : c.low}, radius),
          product<fused>({swap ? c.high : s.high, swap ? c.low : s.low}, radius)};
}

}  // namespace shade::privacy
