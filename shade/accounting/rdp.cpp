#include "shade/accounting/rdp.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "shade/accounting/branch.h"
#include "shade/accounting/log_sum.h"
#include "shade/base/error.h"

namespace shade::privacy {
namespace {

double renyi(std::span<const Branch> of_step, double sigma, double order) {
  LogSum excess;  // of the moment over 1: branches add
  for (const auto& branch : of_step)
    excess.add(std::log(branch.probability) + log_excess(branch.rate, sigma / branch.shift, order));
  return log1p_exp(excess.log()) / (order - 1);
}

}  // namespace

std::vector<double> default_orders() {
  std::vector<double> orders{1.01, 1.02, 1.05};
  for (int tenths = 11; tenths < 110; ++tenths) orders.push_back(tenths / 10.0);
  for (int order = 11; order < 64; ++order) orders.push_back(order);
  for (double order : {64, 72, 80, 96, 112, 128, 160, 192, 256, 320, 384, 512, 768, 1024}) orders.push_back(order);
  return orders;
}

double renyi(const Mechanism& mechanism, double order) {
  SHADE_REQUIRE(std::isfinite(order) && order > 1, "Renyi order ", order, " is out of range; expected above 1");
  return renyi(branches(mechanism), mechanism.noise_multiplier, order);
}

RdpEpsilon rdp_to_epsilon(std::span<const double> orders, std::span<const double> divergences, double delta) {
  require_delta(delta);
  SHADE_REQUIRE(!orders.empty() && orders.size() == divergences.size(), "expected a divergence for each order, found ",
                divergences.size(), " for ", orders.size());
  RdpEpsilon best{.epsilon = std::numeric_limits<double>::infinity()};
  size_t at = 0;
  for (size_t i = 0; i < orders.size(); ++i) {
    const double a = orders[i];
    const double epsilon = divergences[i] + std::log1p(-1 / a) - (std::log(delta) + std::log(a)) / (a - 1);
    if (epsilon >= best.epsilon) continue;
    best = {.epsilon = epsilon, .order = a};
    at = i;
  }
  SHADE_REQUIRE(std::isfinite(best.epsilon), "no Renyi order gives a finite epsilon at delta ", delta,
                "; the noise is too small for this accountant");
  best.at_grid_end = best.epsilon > 0 && (at == 0 || at + 1 == orders.size());
  best.epsilon = std::max(0.0, best.epsilon);
  return best;
}

RdpEpsilon rdp_epsilon(std::span<const Steps> steps, double delta, std::span<const double> orders) {
  const auto grid = orders.empty() ? default_orders() : std::vector<double>(orders.begin(), orders.end());
  const auto run = checked(steps);
  require_delta(delta);
  if (run.empty()) return {};
  std::vector<double> total(grid.size(), 0.0);
  for (const auto& [mechanism, count] : run) {
    const auto of_step = branches(mechanism);
    for (size_t i = 0; i < grid.size(); ++i)
      total[i] += static_cast<double>(count) * renyi(of_step, mechanism.noise_multiplier, grid[i]);
  }
  return rdp_to_epsilon(grid, total, delta);
}

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
