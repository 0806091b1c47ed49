// What the right guesses of one training say about epsilon (Steinke, Nasr and Jagielski 2023).
//
// m canaries are included or left out, each by a coin of its own. Somebody sees the outcome of one training, guesses
// for k canaries which of the two it was, and is right v times. If the training is (epsilon, delta)-private for adding
// or removing a canary, then (their Theorem 5.2, and Proposition 5.1 for delta = 0)
//
//   P(right >= v) <= f(v) + 2 m delta max_{i = 1..m} (f(v - i) - f(v)) / i,
//   f(v) = P(Binomial(k, e^epsilon / (1 + e^epsilon)) >= v).
//
// Epsilon is at least the value at which that is one minus the confidence. Assumed: the coins are independent and fair,
// and the number of guesses was fixed before. Nothing is assumed of the training, the canaries or how guesses are made.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace shade::proof {

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
