// Statistics of audits: from counts of an observer's errors to what a mechanism has at least.
//
// An observer says which of two worlds he sees, one with a record and one without it. Counts of his errors give upper
// bounds of his error rates (Clopper and Pearson), and rates that a claim excludes refute the claim. Nothing is assumed
// but that the trials are independent and that his rule was fixed before they were made.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "shade/accounting/event.h"

namespace shade::proof {

double log_chance(int64_t count, int64_t runs, double rate);  // of exactly `count` of `runs`

// The largest rate that is not refuted by `count` of `runs` at this confidence.
double upper_rate(int64_t count, int64_t runs, double confidence);

// Of so many runs, but for one audit in 2,000.
int64_t most_errors(int64_t runs, double rate);

// Of an observer, or upper bounds of them that hold together.
struct ErrorRates {
  double false_alarms = 1, misses = 1;
};
ErrorRates upper_rates(int64_t false_alarms, int64_t misses, int64_t runs, double confidence);

// Every mechanism that allows these rates has at least this epsilon at this delta: the definition, read backwards.
double epsilon_by_definition(const ErrorRates& rates, double delta);

// All (epsilon, delta) that an accountant states for a run. A mechanism that has them allows no observer with
//   1 - misses > e^epsilon false_alarms + delta   or   1 - false_alarms > e^epsilon misses + delta.
class ClaimedCurve {
 public:
  explicit ClaimedCurve(const privacy::Steps& steps);  // both directions; cost: about 0.1 s

  // Above 0: the rates are excluded by one of the points, whose first inequality holds with so much to spare (logarithm
  // of the factor by which an error rate is too small).
  double excess(const ErrorRates& rates) const;

 private:
  std::vector<std::pair<double, double>> points_;  // epsilon, delta
};

// The epsilon at `delta` of a run like this one, but for its sigma: the largest that these rates exclude. Tighter than
// the definition at one delta, because all points of the curve are looked at; it is a statement about Gaussian noise
// of unknown size, as lower_mu() is for one step.
double epsilon_by_curve(const privacy::Steps& steps, double delta, const ErrorRates& rates);

// What the right guesses of one training say about epsilon (Steinke, Nasr and Jagielski 2023).
//
// m canaries are included or left out, each by its own coin. Somebody sees the outcome of one training, guesses for k
// canaries which of the two it was, and is right v times. If the training is (epsilon, delta)-private for adding or
// removing a canary, then (their Theorem 5.2, and Proposition 5.1 for delta = 0)
//
//   P(right >= v) <= f(v) + 2 m delta max_{i = 1..m} (f(v - i) - f(v)) / i,
//   f(v) = P(Binomial(k, e^epsilon / (1 + e^epsilon)) >= v).
//
// Epsilon is at least the value at which that is one minus the confidence. Assumed: the coins are independent and fair,
// and the number of guesses was fixed before. Nothing is assumed of the training, the canaries or how guesses are made.
struct Guesses {
  int64_t canaries = 0;  // m
  int64_t made = 0;      // k, at most m
  int64_t right = 0;     // v
};

// The largest probability of at least so many right guesses that (epsilon, delta) allows.
double chance_of(const Guesses& guesses, double epsilon, double delta);

// 0 if nothing is shown.
double one_run_epsilon(const Guesses& guesses, double delta, double confidence);

// Guesses by score: of the canaries with the highest scores that they were included, of as many with the lowest that
// they were not. `made` is rounded down to an even number.
Guesses guess(std::span<const double> scores, const std::vector<bool>& included, int64_t made);

// Several numbers of guesses are tried, each at a confidence by which all of them hold together.
struct OneRunBound {
  Guesses guesses;  // that show the most
  double epsilon = 0;
  double largest = 0;  // what it would be if all guesses were right, the most that so many canaries can show
};
OneRunBound one_run_bound(std::span<const double> scores, const std::vector<bool>& included, double delta,
                          double confidence);

}  // namespace shade::proof
