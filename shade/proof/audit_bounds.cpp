#include "shade/proof/audit_bounds.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "shade/accounting/prv.h"
#include "shade/base/error.h"

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

double chance_of(const Guesses& guesses, double epsilon, double delta) {
  const auto canaries = guesses.canaries, made = guesses.made, right = guesses.right;
  SHADE_REQUIRE(0 <= right && right <= made && made <= canaries, right, " right guesses of ", made, " on ", canaries,
                " canaries; expected no more of the former than of the latter");
  const double rate = 1 / (1 + std::exp(-epsilon));  // of right answers, by randomised response
  const auto exactly = [&](int64_t count) {
    if (rate == 1) return count == made ? 1.0 : 0.0;
    return std::exp(log_chance(count, made, rate));
  };
  double above = 0;  // f(v)
  for (int64_t count = made; count >= right; --count) above += exactly(count);
  double between = 0, steepest = 0;  // f(v - i) - f(v); constant in i once that is 1, so i > v is never the largest
  for (int64_t i = 1; i <= right; ++i) {
    between += exactly(right - i);
    steepest = std::max(steepest, between / static_cast<double>(i));
  }
  return std::min(1.0, above + 2 * static_cast<double>(canaries) * delta * steepest);
}

double one_run_epsilon(const Guesses& guesses, double delta, double confidence) {
  const double left = 1 - confidence;
  if (chance_of(guesses, 0, delta) >= left) return 0;
  double low = 0, high = 1;
  while (high < 64 && chance_of(guesses, high, delta) < left) high *= 2;
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    (chance_of(guesses, middle, delta) < left ? low : high) = middle;
  }
  return low;
}

Guesses guess(std::span<const double> scores, const std::vector<bool>& included, int64_t made) {
  SHADE_REQUIRE(scores.size() == included.size(), scores.size(), " scores of ", included.size(), " canaries");
  SHADE_REQUIRE(std::all_of(scores.begin(), scores.end(), [](double score) { return std::isfinite(score); }),
                "a canary's loss is not a finite number: the model is broken, and nothing can be shown about it");
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] < scores[b]; });
  const auto side = static_cast<size_t>(std::min<int64_t>(made, std::ssize(scores)) / 2);
  Guesses out{.canaries = std::ssize(scores), .made = static_cast<int64_t>(2 * side)};
  for (size_t i = 0; i < side; ++i) {
    out.right += included[order[i]] ? 0 : 1;
    out.right += included[order[order.size() - 1 - i]] ? 1 : 0;
  }
  return out;
}

OneRunBound one_run_bound(std::span<const double> scores, const std::vector<bool>& included, double delta,
                          double confidence) {
  // Certain guesses show more the more there are, uncertain ones if only the best are made.
  constexpr int64_t kParts[] = {1, 3, 10, 30};
  const double each = 1 - (1 - confidence) / static_cast<double>(std::size(kParts));
  OneRunBound out;
  for (const auto part : kParts) {
    const auto guesses = guess(scores, included, std::ssize(scores) / part);
    const double epsilon = one_run_epsilon(guesses, delta, each);
    if (out.guesses.made == 0 || epsilon > out.epsilon) {
      out.guesses = guesses;
      out.epsilon = epsilon;
    }
    out.largest =
        std::max(out.largest, one_run_epsilon({guesses.canaries, guesses.made, /*right=*/guesses.made}, delta, each));
  }
  return out;
}

}  // namespace shade::proof
