#include "shade/accounting/fourier.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "shade/base/error.h"

namespace shade::privacy {
namespace {

using Number = std::complex<double>;

// std::complex's own product looks for infinities.
Number times(Number a, Number b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

// e^(-2 pi i k / n), with an angle of at most pi / 4: sine and cosine keep all their bits there.
Number factor(size_t k, size_t n) {
  const auto near = [&](size_t part) {
    return 2 * std::numbers::pi * static_cast<double>(part) / static_cast<double>(n);
  };
  if (8 * k <= n) return {std::cos(near(k)), -std::sin(near(k))};
  if (4 * k <= n) return {std::sin(near(n / 4 - k)), -std::cos(near(n / 4 - k))};
  const auto rest = factor(k - n / 4, n);  // a quarter turn further
  return {rest.imag(), -rest.real()};
}

// Radix 2, each pass from one array to the other in order (Stockham).
std::vector<Number> complex_transform(std::vector<Number> from) {
  const size_t n = from.size();
  std::vector<Number> to(n), factors(n / 2);
  for (size_t k = 0; k < n / 2; ++k) factors[k] = factor(k, n);
  for (size_t half = n / 2, stride = 1; half > 0; half /= 2, stride *= 2) {
    for (size_t p = 0; p < half; ++p) {
      const auto turn = factors[p * stride];
      for (size_t q = 0; q < stride; ++q) {
        const auto a = from[q + stride * p], b = from[q + stride * (p + half)];
        to[q + stride * (2 * p)] = a + b;
        to[q + stride * (2 * p + 1)] = times(a - b, turn);
      }
    }
    std::swap(from, to);
  }
  return from;
}

}  // namespace

// Two neighbours are one complex number: half as many, and one more pass that parts even from odd.
std::vector<Number> real_transform(std::span<const double> values) {
  const size_t n = values.size(), half = n / 2;
  SHADE_CHECK(n >= 4 && std::has_single_bit(n), "a transform of ", n, " numbers");
  std::vector<Number> pairs(half);
  for (size_t i = 0; i < half; ++i) pairs[i] = {values[2 * i], values[2 * i + 1]};
  const auto z = complex_transform(std::move(pairs));
  std::vector<Number> out(half + 1);
  for (size_t k = 0; k <= half; ++k) {
    const auto a = z[k % half], b = std::conj(z[(half - k) % half]);
    const auto even = 0.5 * (a + b), odd = times(0.5 * (a - b), {0, -1});
    out[k] = even + times(factor(k, n), odd);
  }
  return out;
}

std::vector<double> inverse_real_transform(std::span<const Number> transformed) {
  const size_t half = transformed.size() - 1, n = 2 * half;
  SHADE_CHECK(half >= 2 && std::has_single_bit(half), "a transform of ", transformed.size(), " numbers");
  std::vector<Number> pairs(half);
  for (size_t k = 0; k < half; ++k) {
    const auto a = transformed[k], b = std::conj(transformed[half - k]);
    const auto even = 0.5 * (a + b), odd = times(0.5 * (a - b), std::conj(factor(k, n)));
    pairs[k] = std::conj(even + times(odd, {0, 1}));  // forward of the conjugate is the conjugate of the inverse
  }
  const auto z = complex_transform(std::move(pairs));
  std::vector<double> out(n);
  const double scale = 1 / static_cast<double>(half);
  for (size_t i = 0; i < half; ++i) {
    out[2 * i] = z[i].real() * scale;
    out[2 * i + 1] = -z[i].imag() * scale;
  }
  return out;
}

}  // namespace shade::privacy
