#include "shade/proof/one_run_bound.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "shade/base/error.h"
#include "shade/proof/audit_bounds.h"

namespace shade::proof {

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
