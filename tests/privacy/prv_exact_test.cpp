// The numerical accountant against the inversion integral, which has no grid of losses:
//   delta(e) = 1 / pi  integral over w > 0 of Re e^(K(z) - z e) / (z (z + 1)) dw,   z = t + i w,   K(z) = n log E e^(z
//   L)
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <complex>
#include <numbers>

#include "shade/accounting/gaussian_pair.h"
#include "shade/accounting/prv.h"

namespace shade::privacy {
namespace {

using Complex = std::complex<double>;

struct Inversion {
  Inversion(double q, double sigma, double steps, Direction direction) : n(steps) {
    const double dx = sigma / 20;
    for (double x = -12 * sigma; x < 1 + 12 * sigma; x += dx) {
      const double ratio = std::log1p(q * std::expm1((x - 0.5) / (sigma * sigma)));
      const double base = std::exp(-x * x / (2 * sigma * sigma)) * dx / sigma / std::sqrt(2 * std::numbers::pi);
      mass.push_back(direction == Direction::remove ? base * std::exp(ratio) : base);
      loss.push_back(direction == Direction::remove ? ratio : -ratio);
    }
  }

  Complex moment(Complex z) const {
    Complex sum = 0;
    for (size_t i = 0; i < mass.size(); ++i) sum += mass[i] * std::exp(z * loss[i]);
    return sum;
  }

  double delta(double epsilon) const {
    double best = INFINITY, t = 1;
    for (double candidate = 0.05; candidate < 200; candidate *= 1.1) {
      const double height = n * std::log(moment(candidate).real()) - candidate * epsilon;
      if (height < best) best = height, t = candidate;
    }
    const double at_t = moment(t).real();
    double mean = 0, square = 0;
    for (size_t i = 0; i < mass.size(); ++i) {
      const double tilted = mass[i] * std::exp(t * loss[i]) / at_t;
      mean += tilted * loss[i];
      square += tilted * loss[i] * loss[i];
    }
    const double dw = 0.02 / std::sqrt(n * (square - mean * mean));
    double sum = 0;
    for (int k = 0; k < 20000; ++k) {
      const Complex z(t, k * dw);
      // The mean's phase is taken out before the n-th power, so that the logarithm stays on its main sheet.
      const Complex turned = moment(z) / at_t * std::exp(Complex(0, -k * dw * mean));
      const double size = n * std::log(std::abs(turned));
      const Complex term =
          std::exp(Complex(size, n * std::arg(turned) + k * dw * (n * mean - epsilon))) / (z * (z + 1.0));
      sum += (k == 0 ? 0.5 : 1.0) * term.real();
      if (size < -40) break;
    }
    return std::exp(n * std::log(at_t) - t * epsilon) * sum * dw / std::numbers::pi;
  }

  double epsilon(double delta_wanted, double low, double high) const {
    for (int i = 0; i < 18; ++i) {
      const double middle = (low + high) / 2;
      (delta(middle) > delta_wanted ? low : high) = middle;
    }
    return high;
  }

  double n;
  std::vector<double> mass, loss;
};

struct Case {
  double q, sigma;
  int64_t steps;
  double delta;
};

TEST(PrvExact, IsAtMostATenThousandthAboveTheIntegralInBothDirections) {
  for (const auto& [q, sigma, steps, delta] :
       {Case{0.001, 2, 20000, 1e-6}, Case{0.04, 1.5, 2250, 1e-10}, Case{0.3, 0.8, 200, 1e-5}})
    for (const auto direction : {Direction::remove, Direction::add}) {
      const Steps run{{.sample_rate = q, .noise_multiplier = sigma}, steps};
      const double found = prv_epsilon(run_pairs({&run, 1}, direction), delta);
      const double exact =
          Inversion(q, sigma, static_cast<double>(steps), direction).epsilon(delta, 0.999 * found, 1.001 * found);
      EXPECT_GE(found, exact) << q << " " << sigma;
      EXPECT_LE(found, exact * (1 + 1e-4)) << q << " " << sigma;
    }
}

TEST(PrvExact, DeltaForEpsilon) {
  const Steps run{{.sample_rate = 0.04, .noise_multiplier = 1.5}, 2250};
  for (const double epsilon : {1.0, 4.0, 8.0, 16.0}) {
    const double found = prv_delta({&run, 1}, epsilon);
    const double exact = Inversion(0.04, 1.5, 2250, Direction::remove).delta(epsilon);
    EXPECT_GE(found, exact) << epsilon;
    EXPECT_LE(found, exact * 1.005) << epsilon;
  }
}

TEST(PrvExact, WithoutSamplingItIsTheGaussianMechanism) {
  for (const double sigma : {0.3, 1.0, 50.0})
    for (const int64_t steps : {1, 2, 30, 1000})
      for (const double delta : {1e-2, 1e-5, 1e-12}) {
        const Steps run{{.sample_rate = 1, .noise_multiplier = sigma}, steps};
        const double mu = std::sqrt(static_cast<double>(steps)) / sigma, exact = gaussian_epsilon(delta, mu);
        for (const auto direction : {Direction::remove, Direction::add}) {
          const double found = prv_epsilon(run_pairs({&run, 1}, direction), delta);
          EXPECT_GE(found, exact * (1 - 1e-12)) << sigma << " " << steps << " " << delta;
          EXPECT_LE(found, exact * (1 + 1e-4) + 1e-6) << sigma << " " << steps << " " << delta;
        }
        const double epsilon = std::max(0.1, exact);
        EXPECT_GE(prv_delta({&run, 1}, epsilon), gaussian_delta(epsilon, mu)) << sigma << " " << steps << " " << delta;
      }
}

TEST(PrvExact, CoarserIsHigherNeverLower) {
  const Steps run{{.sample_rate = 0.02, .noise_multiplier = 0.9}, 500};
  const auto pairs = run_pairs({&run, 1}, Direction::remove);
  double last = prv_epsilon(pairs, 1e-6, kFine);
  for (const double tolerance : {3e-4, 3e-3, 3e-2}) {
    const double found = prv_epsilon(pairs, 1e-6, {.tolerance = tolerance, .points = 1 << 19});
    EXPECT_GT(found, last) << tolerance;
    EXPECT_LT(found, last * (1 + 2 * tolerance)) << tolerance;
    last = found;
  }
}

}  // namespace
}  // namespace shade::privacy
