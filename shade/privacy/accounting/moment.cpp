#include "shade/privacy/accounting/moment.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "shade/privacy/accounting/log_sum.h"

namespace shade::privacy {
namespace {

double log_excess_by_sum(double q, double sigma, double alpha) {
  LogSum excess;
  double log_choose = std::log(alpha);  // C(alpha, 1)
  for (double k = 2; k <= alpha; ++k) {
    log_choose += std::log((alpha - k + 1) / k);
    excess.add(log_choose + k * std::log(q) + (alpha - k) * std::log1p(-q) +
               log_expm1(k * (k - 1) / (2 * sigma * sigma)));
  }
  return excess.log();
}

// log((1 + u)^alpha - 1 - alpha u) where 1 + u = 1 - q + q e^y
double log_integrand(double q, double y, double alpha) {
  const double u = q * std::expm1(y);
  if (std::abs(u) * alpha < 0.05) {  // the difference below would lose digits
    double term = alpha * (alpha - 1) / 2 * u * u, sum = 0;
    for (double k = 3; std::abs(term) > 1e-18 * sum; ++k) {
      sum += term;
      term *= (alpha - k + 1) / k * u;
    }
    return sum > 0 ? std::log(sum) : -INFINITY;
  }
  const double v = y > 30 ? y + std::log(q) + std::log1p((1 - q) / q * std::exp(-y)) : std::log1p(u);
  if (alpha * v < 30) return std::log(std::expm1(alpha * v) - alpha * u);
  const double log_line = u > 1e15 ? std::log(alpha) + v : std::log1p(alpha * u);
  return alpha * v + std::log1p(-std::exp(log_line - alpha * v));
}

}  // namespace

double log_excess_by_quadrature(double q, double sigma, double alpha) {
  const double variance = sigma * sigma;
  const double step = std::min(sigma / 4, variance / 3);  // the branch point of (1 + u)^alpha is pi sigma^2 away
  LogSum excess;
  for (double x = -10 * sigma; x < alpha + 10 * sigma; x += step)
    excess.add(log_integrand(q, (x - 0.5) / variance, alpha) - x * x / (2 * variance));
  return excess.log() + std::log(step / sigma) - 0.5 * std::log(2 * std::numbers::pi);
}

double log_excess(double q, double sigma, double alpha) {
  if (q >= 1) return log_expm1(alpha * (alpha - 1) / (2 * sigma * sigma));
  return alpha == std::floor(alpha) ? log_excess_by_sum(q, sigma, alpha) : log_excess_by_quadrature(q, sigma, alpha);
}

}  // namespace shade::privacy
