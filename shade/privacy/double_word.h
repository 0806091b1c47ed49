// Numbers as sums of two floats: about 48 bits from fp32 arithmetic alone, also where fp64 is slow or missing.
//
// `high` is the number rounded to fp32, up to a few units in the last place, `low` the rest. The rounding error of a
// sum or product of two floats is a float itself (Dekker 1971, Knuth 1969), so it can be computed and kept. `fused`
// says how the error of a product is found: by one fused multiply-add, or by Dekker's splitting where the processor has
// none. Both give it exactly unless it underflows, hence the same bits but for that. All other steps are sums and
// products in a fixed order, which the compiler must not contract (-ffp-contract=off). Everything is inlined into loops
// over arrays, which the compiler turns into vectors.
#pragma once

#include "shade/privacy/kernel_code.h"

namespace shade::privacy {

struct DoubleWord {
  float high, low;
};

// a + b, exactly, if a is 0 or has an exponent not below b's.
SHADE_INLINE DoubleWord ordered_sum(float a, float b) {
  const float rounded = a + b;
  return {rounded, b - (rounded - a)};
}

// a + b, exactly.
SHADE_INLINE DoubleWord exact_sum(float a, float b) {
  const float rounded = a + b, from_b = rounded - a;
  return {rounded, (a - (rounded - from_b)) + (b - from_b)};
}

// The upper 12 of the 24 bits of a.
SHADE_INLINE float upper_half(float a) {
  const float scaled = 4097.0f * a;
  return scaled - (scaled - a);
}

// a b, exactly.
template <bool fused>
SHADE_INLINE DoubleWord exact_product(float a, float b) {
  const float rounded = a * b;
  if constexpr (fused) return {rounded, multiply_add(a, b, -rounded)};
  const float a1 = upper_half(a), a2 = a - a1, b1 = upper_half(b), b2 = b - b1;
  return {rounded, (((a1 * b1 - rounded) + a1 * b2) + a2 * b1) + a2 * b2};
}

// c - a b, rounded once, where a b is within a factor of 2 of c.
template <bool fused>
SHADE_INLINE float residual(float c, float a, float b) {
  if constexpr (fused) return multiply_add(-a, b, c);
  const auto ab = exact_product<fused>(a, b);
  return (c - ab.high) - ab.low;
}

template <bool fused>
SHADE_INLINE DoubleWord product(DoubleWord a, DoubleWord b) {
  const auto rounded = exact_product<fused>(a.high, b.high);
  return {rounded.high, rounded.low + (a.high * b.low + a.low * b.high)};
}

// c + x p, for a product smaller than c: a step of Horner's rule.
template <bool fused>
SHADE_INLINE DoubleWord horner(DoubleWord c, DoubleWord x, DoubleWord p) {
  const auto term = product<fused>(x, p);
  const auto total = ordered_sum(c.high, term.high);
  return {total.high, total.low + (term.low + c.low)};
}

// The same where the product is so small that 24 bits of it suffice.
SHADE_INLINE DoubleWord horner(DoubleWord c, DoubleWord x, float p) {
  const auto total = ordered_sum(c.high, x.high * p);
  return {total.high, total.low + c.low};
}

// The square root of a number above 0.
template <bool fused>
SHADE_INLINE DoubleWord square_root(DoubleWord a) {
  const float root = rounded_root(a.high);
  return {root, (residual<fused>(a.high, root, root) + a.low) * (0.5f / root)};
}

// a / b.
template <bool fused>
SHADE_INLINE DoubleWord quotient(DoubleWord a, DoubleWord b) {
  const float inverse = 1.0f / b.high, ratio = a.high * inverse;
  return {ratio, (residual<fused>(a.high, ratio, b.high) + (a.low - ratio * b.low)) * inverse};
}

}  // namespace shade::privacy
