#include "shade/accounting/gaussian_pair.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "shade/base/error.h"

namespace shade::privacy {
namespace {

struct LogRatio {
  double value;  // log of a mixture over N(0, sigma^2)
  double slope;
};

LogRatio log_ratio(const std::vector<Component>& mixture, double x, double variance) {
  double largest = -INFINITY;
  for (const auto& c : mixture) largest = std::max(largest, c.shift * (x - c.shift / 2) / variance);
  double sum = 0, slope = 0;
  if (largest < 30) {  // near 0 a logarithm keeps its digits only this way
    for (const auto& c : mixture) {
      if (c.shift == 0) continue;
      const double change = std::expm1(c.shift * (x - c.shift / 2) / variance);
      sum += c.probability * change;
      slope += c.probability * (1 + change) * c.shift;
    }
    if (sum > -0.5) return {std::log1p(sum), slope / variance / (1 + sum)};
    sum = slope = 0;
  }
  for (const auto& c : mixture) {
    const double term = c.probability * std::exp(c.shift * (x - c.shift / 2) / variance - largest);
    sum += term;
    slope += term * c.shift;
  }
  return {largest + std::log(sum), slope / variance / sum};
}

}  // namespace

GaussianPair::GaussianPair(double sigma, std::vector<Component> p, std::vector<Component> q)
    : sigma_(sigma),
      scale_(-std::log(sigma) - 0.5 * std::log(2 * std::numbers::pi)),
      p_(std::move(p)),
      q_(std::move(q)) {
  std::erase_if(p_, [](const Component& c) { return c.probability == 0; });
  std::erase_if(q_, [](const Component& c) { return c.probability == 0; });
  double p_mass = 0, q_mass = 0;
  for (const auto& c : p_) {
    SHADE_CHECK(c.shift >= 0 && c.probability >= 0, "shift ", c.shift, ", probability ", c.probability);
    p_mass += c.probability;
  }
  for (const auto& c : q_) {
    SHADE_CHECK(c.shift <= 0 && c.probability >= 0, "shift ", c.shift, ", probability ", c.probability);
    q_mass += c.probability;
  }
  SHADE_CHECK(std::abs(p_mass - 1) < 1e-12 && std::abs(q_mass - 1) < 1e-12, "masses ", p_mass, ", ", q_mass);
}

GaussianPair GaussianPair::of(const Branch& branch, double sigma, Direction direction) {
  const double q = branch.rate;
  if (direction == Direction::remove) return {sigma, {{0, 1 - q}, {branch.shift, q}}, {{0, 1}}};
  return {sigma, {{0, 1}}, {{0, 1 - q}, {-branch.shift, q}}};
}

GaussianPair::Point GaussianPair::at(double x) const {
  const double variance = sigma_ * sigma_;
  const auto p = log_ratio(p_, x, variance), q = log_ratio(q_, x, variance);
  return {std::exp(scale_ - x * x / (2 * variance) + p.value), p.value - q.value, p.slope - q.slope};
}

double GaussianPair::loss(double x) const { return at(x).loss; }

double GaussianPair::mass_above(double x) const {
  double mass = 0;
  for (const auto& c : p_) mass += c.probability * std::exp(log_normal_tail((x - c.shift) / sigma_));
  return mass;
}

double GaussianPair::mass_below(double x) const {
  double mass = 0;
  for (const auto& c : p_) mass += c.probability * std::exp(log_normal_tail((c.shift - x) / sigma_));
  return mass;
}

double GaussianPair::lowest(double z) const {
  return std::min_element(p_.begin(), p_.end(), [](auto& a, auto& b) { return a.shift < b.shift; })->shift - z * sigma_;
}

double GaussianPair::highest(double z) const {
  return std::max_element(p_.begin(), p_.end(), [](auto& a, auto& b) { return a.shift < b.shift; })->shift + z * sigma_;
}

StepPairs step_pairs(const Mechanism& mechanism, Direction direction) {
  StepPairs out;
  for (const auto& branch : branches(mechanism))
    out.push_back({branch.probability, GaussianPair::of(branch, mechanism.noise_multiplier, direction)});
  return out;
}

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
