#include "shade/proof/audit_bounds.h"

#include <algorithm>
#include <cmath>

#include "shade/privacy/accounting/prv.h"

namespace shade::proof {
namespace {

// Where a curve is looked at. Error rates of n trials are bounded from below by about 5 / n, so that a larger epsilon
// than log n excludes nothing.
constexpr double kLargestEpsilon = 8, kEpsilonStep = 0.5;
constexpr double kSmallestSigma = 0.05;  // of what epsilon_by_curve tries
constexpr double kRange = 8;             // and how far from the claimed one

}  // namespace

double log_chance(int64_t count, int64_t runs, double rate) {
  const auto n = static_cast<double>(runs), k = static_cast<double>(count);
  return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) + k * std::log(rate) +
         (n - k) * std::log1p(-rate);
}

int64_t most_errors(int64_t runs, double rate) {
  if (rate <= 0) return 0;
  int64_t count = 0;
  for (double sum = std::exp(log_chance(0, runs, rate)); sum < 1 - 0.0005 && count < runs; ++count)
    sum += std::exp(log_chance(count + 1, runs, rate));
  return count;
}

double upper_rate(int64_t count, int64_t runs, double confidence) {
  if (count >= runs) return 1;
  // P(at most `count` of `runs`) falls with the rate; the bound is where it is what confidence leaves.
  const auto at_most = [&](double rate) {
    double sum = 0;
    for (int64_t i = 0; i <= count; ++i) sum += std::exp(log_chance(i, runs, rate));
    return sum;
  };
  double low = static_cast<double>(count) / static_cast<double>(runs), high = 1;
  for (int i = 0; i < 40; ++i) {
    const double middle = (low + high) / 2;
    (at_most(middle) > 1 - confidence ? low : high) = middle;
  }
  return high;
}

ErrorRates upper_rates(int64_t false_alarms, int64_t misses, int64_t runs, double confidence) {
  const double each = 1 - (1 - confidence) / 2;
  return {.false_alarms = upper_rate(false_alarms, runs, each), .misses = upper_rate(misses, runs, each)};
}

double epsilon_by_definition(const ErrorRates& rates, double delta) {
  const auto side = [&](double one, double other) {
    return 1 - one - delta > 0 ? std::log((1 - one - delta) / other) : 0.0;
  };
  return std::max({0.0, side(rates.misses, rates.false_alarms), side(rates.false_alarms, rates.misses)});
}

ClaimedCurve::ClaimedCurve(const privacy::Steps& steps) {
  using privacy::Direction;
  const auto with = privacy::run_pairs({&steps, 1}, Direction::remove);
  const auto without = privacy::run_pairs({&steps, 1}, Direction::add);
  // Upper bounds of delta at any precision: a coarse grid excludes a little less.
  for (double epsilon = 0; epsilon <= kLargestEpsilon; epsilon += kEpsilonStep)
    points_.emplace_back(epsilon, std::max(privacy::prv_delta(with, epsilon, privacy::kCoarse),
                                           privacy::prv_delta(without, epsilon, privacy::kCoarse)));
}

double ClaimedCurve::excess(const ErrorRates& rates) const {
  double most = -INFINITY;
  for (const auto& [epsilon, delta] : points_)
    for (const auto& [one, other] :
         {std::pair{rates.misses, rates.false_alarms}, std::pair{rates.false_alarms, rates.misses}})
      if (1 - one - delta > 0) most = std::max(most, std::log((1 - one - delta) / other) - epsilon);
  return most;
}

double epsilon_by_curve(const privacy::Steps& steps, double delta, const ErrorRates& rates) {
  const auto with_sigma = [&](double sigma) {
    auto out = steps;
    out.mechanism.noise_multiplier = sigma;
    return out;
  };
  const auto excluded = [&](double sigma) { return ClaimedCurve(with_sigma(sigma)).excess(rates) > 0; };
  // More noise allows less: what excludes one sigma excludes all larger ones.
  const double sigma = steps.mechanism.noise_multiplier;
  double low = std::max(kSmallestSigma, sigma / kRange), high = sigma * kRange;
  if (!excluded(high)) return 0;
  if (excluded(low)) high = low;
  while (high / low > 1.02) {
    const double middle = std::sqrt(low * high);
    (excluded(middle) ? high : low) = middle;
  }
  const auto least = with_sigma(high);
  return privacy::prv_epsilon({&least, 1}, delta);
}

}  // namespace shade::proof
