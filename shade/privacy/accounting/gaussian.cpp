#include "shade/privacy/accounting/gaussian.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace shade::privacy {

double log_normal_tail(double z) {
  if (z < 30) return std::log(0.5 * std::erfc(z / std::numbers::sqrt2));
  const double s = 1 / (z * z);  // erfc is about to underflow; the series has converged to the last digit by now
  return -0.5 * z * z - std::log(z) - 0.5 * std::log(2 * std::numbers::pi) +
         std::log1p(-s * (1 - 3 * s * (1 - 5 * s * (1 - 7 * s))));
}

double normal_tail_point(double mass) { return std::sqrt(-2 * std::log(mass)); }  // tail(z) <= exp(-z^2 / 2) / 2

double gaussian_delta(double epsilon, double mu) {
  const double gained = log_normal_tail(epsilon / mu - mu / 2);
  const double paid = epsilon + log_normal_tail(epsilon / mu + mu / 2);
  return paid >= gained ? 0.0 : -std::exp(gained) * std::expm1(paid - gained);
}

double gaussian_epsilon(double delta, double mu) {
  if (!std::isfinite(mu)) return std::numeric_limits<double>::infinity();
  if (gaussian_delta(0, mu) <= delta) return 0;
  double low = 0, high = 1;
  while (gaussian_delta(high, mu) > delta) low = high, high *= 2;
  while (true) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) return high;
    (gaussian_delta(middle, mu) > delta ? low : high) = middle;
  }
}

}  // namespace shade::privacy
