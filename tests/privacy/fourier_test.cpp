// Transforms against their definition in long double, within the bound that an epsilon counts.
#include "shade/accounting/fourier.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>

namespace shade::privacy {
namespace {

using Wide = std::complex<long double>;

std::vector<double> some_numbers(size_t n) {
  std::mt19937_64 random(n);
  std::normal_distribution<double> normal;
  std::vector<double> out(n);
  for (auto& value : out) value = normal(random);
  return out;
}

std::vector<Wide> by_definition(const std::vector<double>& values) {
  const auto n = values.size();
  std::vector<Wide> out(n / 2 + 1);
  for (size_t k = 0; k < out.size(); ++k)
    for (size_t i = 0; i < n; ++i)
      out[k] += static_cast<long double>(values[i]) *
                std::polar(1.0L, -2 * std::numbers::pi_v<long double> * static_cast<long double>(i * k % n) /
                                     static_cast<long double>(n));
  return out;
}

TEST(Fourier, IsWithinItsBound) {
  for (const size_t n : {4u, 8u, 16u, 64u, 1024u, 4096u}) {
    const auto values = some_numbers(n);
    const auto exact = by_definition(values);
    const auto found = real_transform(values);
    ASSERT_EQ(found.size(), exact.size());
    long double error = 0, size = 0;
    for (size_t k = 0; k < exact.size(); ++k) {
      error += std::norm(Wide(found[k]) - exact[k]);
      size += std::norm(exact[k]);
    }
    EXPECT_LE(std::sqrt(error / size), std::log2(n) * 4.25 * 0x1p-52) << n;
  }
}

TEST(Fourier, ComesBack) {
  for (const size_t n : {4u, 8u, 1024u, 1u << 17}) {
    const auto values = some_numbers(n);
    const auto back = inverse_real_transform(real_transform(values));
    ASSERT_EQ(back.size(), n);
    double error = 0, size = 0;
    for (size_t i = 0; i < n; ++i) {
      error += (back[i] - values[i]) * (back[i] - values[i]);
      size += values[i] * values[i];
    }
    EXPECT_LE(std::sqrt(error / size), std::log2(n) * 8.5 * 0x1p-52) << n;
  }
}

}  // namespace
}  // namespace shade::privacy
