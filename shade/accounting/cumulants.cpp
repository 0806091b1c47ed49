#include "shade/accounting/cumulants.h"

#include <algorithm>
#include <cmath>

namespace shade::privacy {
namespace {

struct Moments {
  double log_total, variance;
};

Moments tilted_moments(const auto& atoms, double t) {
  double largest = -INFINITY;
  for (const auto& atom : atoms) largest = std::max(largest, atom.log_mass + t * atom.loss);
  double total = 0, first = 0, second = 0;
  for (const auto& atom : atoms) {
    const double mass = std::exp(atom.log_mass + t * atom.loss - largest);
    total += mass;
    first += mass * atom.loss;
  }
  first /= total;
  for (const auto& atom : atoms)
    second += std::exp(atom.log_mass + t * atom.loss - largest) * (atom.loss - first) * (atom.loss - first);
  return {largest + std::log(total), second / total};
}

}  // namespace

double log_saving(double t) { return t * std::log(t / (t + 1)) - std::log1p(t); }

Cumulants::Cumulants(const std::vector<RepeatedPairs>& run, double z, double points) {
  double steps = 0;
  for (const auto& [step, count] : run) {
    Kind kind{.count = static_cast<double>(count)};
    double low = INFINITY, high = -INFINITY;
    for (const auto& [probability, pair] : step) {
      const double dx = pair.sigma() / 16, end = pair.highest(z);
      for (double x = pair.lowest(z); x <= end; x += dx) {
        const auto point = pair.at(x);
        if (point.density <= 0 || probability <= 0) continue;
        kind.atoms.push_back({std::log(probability * point.density * dx), point.loss});
        low = std::min(low, point.loss);
        high = std::max(high, point.loss);
      }
    }
    const double total = tilted_moments(kind.atoms, 0).log_total;
    for (auto& atom : kind.atoms) atom.log_mass -= total;
    span_ = std::max(span_, high - low);
    steps += kind.count;
    kinds_.push_back(std::move(kind));
  }
  largest_tilt_ = std::min(1e5, 3 * points / std::sqrt(steps)) / span_;
}

double Cumulants::operator()(double t) const {
  double sum = 0;
  for (const auto& kind : kinds_) sum += kind.count * tilted_moments(kind.atoms, t).log_total;
  return sum;
}

double Cumulants::deviation(double t) const {
  double sum = 0;
  for (const auto& kind : kinds_) sum += kind.count * tilted_moments(kind.atoms, t).variance;
  return std::sqrt(sum);
}

double Cumulants::search(const auto& objective) const {
  constexpr double kGolden = 0.6180339887498949;
  double low = std::log(1e-9 / span_), high = std::log(largest_tilt_);
  double left = high - kGolden * (high - low), right = low + kGolden * (high - low);
  double at_left = objective(std::exp(left)), at_right = objective(std::exp(right));
  while (high - low > 1e-3) {
    if (at_left <= at_right) {
      high = right, right = left, at_right = at_left;
      left = high - kGolden * (high - low), at_left = objective(std::exp(left));
    } else {
      low = left, left = right, at_left = at_right;
      right = low + kGolden * (high - low), at_right = objective(std::exp(right));
    }
  }
  return std::exp(low + (high - low) / 2);
}

Cumulants::Edge Cumulants::above(double base, double log_mass) const {
  const double at_base = (*this)(base);
  const auto loss = [&](double t) { return ((*this)(base + t) - at_base + log_mass) / t; };
  const double t = search(loss);
  return {t, loss(t)};
}

Cumulants::Edge Cumulants::below(double base, double log_mass) const {
  const double at_base = (*this)(base);
  const auto depth = [&](double t) { return ((*this)(base - t) - at_base + log_mass) / t; };
  const double t = search(depth);
  return {t, -depth(t)};
}

Cumulants::Edge Cumulants::epsilon(double delta) const {
  const auto loss = [&](double t) { return ((*this)(t) + log_saving(t) - std::log(delta)) / t; };
  const double t = search(loss);
  return {t, loss(t)};
}

double Cumulants::tilt_for(double epsilon) const {
  return search([&](double t) { return (*this)(t) + log_saving(t) - t * epsilon; });
}

}  // namespace shade::privacy
