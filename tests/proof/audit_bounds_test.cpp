// Bounds of audits: never above what a mechanism has, but for what their confidence leaves, and not far below.
#include "shade/proof/audit_bounds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "shade/accounting/gaussian_pair.h"
#include "shade/base/error.h"
#include "shade/proof/audit_training.h"

namespace shade::proof {
namespace {

double right_by(double epsilon) { return 1 / (1 + std::exp(-epsilon)); }

// P(Binomial(n, p) >= v), term by term.
double at_least(int64_t v, int64_t n, double p) {
  double sum = 0;
  for (int64_t i = std::max<int64_t>(v, 0); i <= n; ++i) {
    double ways = 1;
    for (int64_t j = 0; j < i; ++j) ways = ways * static_cast<double>(n - j) / static_cast<double>(j + 1);
    sum += ways * std::pow(p, static_cast<double>(i)) * std::pow(1 - p, static_cast<double>(n - i));
  }
  return sum;
}

TEST(OneRunBound, IsTheTheorem) {
  // All right: the confidence leaves rate^k.
  const double rate = std::pow(0.05, 0.1);
  EXPECT_NEAR(one_run_epsilon({10, 10, 10}, 0, 0.95), std::log(rate / (1 - rate)), 1e-9);
  EXPECT_EQ(one_run_epsilon({100, 100, 50}, 0, 0.95), 0) << "half of the guesses are right by chance";
  for (const auto& [m, k, v] : {std::array<int64_t, 3>{30, 20, 17}, {30, 30, 21}, {50, 10, 10}, {12, 12, 1}})
    for (const double epsilon : {0.0, 0.7, 2.0})
      for (const double delta : {0.0, 1e-5, 1e-3}) {
        const double p = right_by(epsilon), base = at_least(v, k, p);
        double steepest = 0;
        for (int64_t i = 1; i <= m; ++i)
          steepest = std::max(steepest, (at_least(v - i, k, p) - base) / static_cast<double>(i));
        const double expected = std::min(1.0, base + 2 * static_cast<double>(m) * delta * steepest);
        EXPECT_NEAR(chance_of({m, k, v}, epsilon, delta), expected, 1e-12) << m << " " << k << " " << v;
      }
  EXPECT_LT(one_run_epsilon({200, 200, 190}, 1e-4, 0.95), one_run_epsilon({200, 200, 190}, 0, 0.95));
  EXPECT_THROW(chance_of({10, 11, 3}, 1, 0), UsageError);
}

TEST(OneRunBound, GuessesTheHighestAndTheLowest) {
  const double scores[] = {3, -1, 0.5, 2, -4, 0};
  const std::vector<bool> included{true, false, true, false, false, true};
  const auto four = guess(scores, included, 5);
  EXPECT_EQ(four.made, 4);
  EXPECT_EQ(four.right, 3) << "3 and 2 are called included, -4 and -1 left out";
  EXPECT_EQ(four.canaries, 6);
  EXPECT_EQ(guess(scores, {false, true, true, true, true, false}, 4).right, 1) << "2 alone: -4 and -1 are included";
}

// Answers by chance are what the theorem compares with: the bound is above epsilon as often as the confidence leaves.
TEST(OneRunBound, IsTightForRandomisedResponse) {
  std::mt19937_64 random(5);
  constexpr int kAudits = 1000;
  constexpr double kEpsilon = 1.2;
  std::binomial_distribution<int64_t> right(150, right_by(kEpsilon));
  int above = 0;
  for (int i = 0; i < kAudits; ++i) above += one_run_epsilon({150, 150, right(random)}, 0, 0.9) > kEpsilon ? 1 : 0;
  EXPECT_LT(above, kAudits * (0.1 + 3 * std::sqrt(0.09 / kAudits)));
  EXPECT_GT(above, kAudits * 0.04) << "a bound that never fails says too little";
}

// An answer is true with probability delta, and by chance otherwise: (epsilon, delta), and nearly the theorem's worst.
TEST(OneRunBound, HoldsWithDelta) {
  std::mt19937_64 random(6);
  constexpr int kAudits = 1000;
  constexpr double kEpsilon = 0.8, kDelta = 0.01;
  std::binomial_distribution<int64_t> right(100, kDelta + (1 - kDelta) * right_by(kEpsilon));
  int above = 0;
  for (int i = 0; i < kAudits; ++i) above += one_run_epsilon({100, 100, right(random)}, kDelta, 0.9) > kEpsilon ? 1 : 0;
  EXPECT_LT(above, kAudits * (0.1 + 3 * std::sqrt(0.09 / kAudits)));
}

TEST(OneRunBound, NeverExceedsTheGaussianMechanism) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  std::bernoulli_distribution coin;
  constexpr double kMu = 2, kDelta = 1e-5;
  const double truth = privacy::gaussian_epsilon(kDelta, kMu);
  double most = 0;
  for (int i = 0; i < 60; ++i) {
    std::vector<double> scores;
    std::vector<bool> included;
    for (int c = 0; c < 400; ++c) {
      included.push_back(coin(random));
      scores.push_back((included.back() ? kMu : 0) + normal(random));
    }
    most = std::max(most, one_run_bound(scores, included, kDelta, 0.95).epsilon);
  }
  EXPECT_LT(most, truth);
  EXPECT_GT(most, truth / 5);
}

privacy::Steps run_of(double rate, double sigma, int64_t steps) {
  return {{.sample_rate = rate, .noise_multiplier = sigma}, steps};
}

// Of the best test between N(0, 1) and N(mu, 1), at the middle.
ErrorRates rates_of(double mu, double threshold) {
  return {.false_alarms = std::erfc(threshold / std::sqrt(2.0)) / 2,
          .misses = std::erfc((mu - threshold) / std::sqrt(2.0)) / 2};
}

TEST(ClaimedCurve, ExcludesWhatIsBetterThanTheBestTest) {
  const ClaimedCurve one(run_of(1, 1, 1)), four(run_of(1, 2, 4));
  for (const auto* curve : {&one, &four})  // both have mu 1
    for (const double threshold : {0.3, 0.5, 1.2}) {
      EXPECT_LE(curve->excess(rates_of(1, threshold)), 0);
      EXPECT_GT(curve->excess(rates_of(1, threshold)), -0.1) << "the curve passes through the best test's rates";
      EXPECT_GT(curve->excess(rates_of(1.2, threshold)), 0);
    }
}

TEST(ClaimedCurve, GivesTheEpsilonOfTheRates) {
  const auto found = epsilon_by_curve(run_of(1, 3, 1), 1e-5, rates_of(1, 0.5));
  const auto truth = privacy::gaussian_epsilon(1e-5, 1);
  EXPECT_LE(found, truth * 1.001);
  EXPECT_GT(found, truth * 0.9);
  EXPECT_EQ(epsilon_by_curve(run_of(1, 1, 1), 1e-5, {.false_alarms = 0.5, .misses = 0.5}), 0);
}

TEST(ClaimedCurve, DefinitionAtOneDelta) {
  EXPECT_NEAR(epsilon_by_definition({.false_alarms = 0.01, .misses = 0.2}, 1e-5), std::log((0.8 - 1e-5) / 0.01), 1e-12);
  EXPECT_EQ(epsilon_by_definition({.false_alarms = 0.6, .misses = 0.7}, 1e-5), 0);
}

// Trainings as an accountant sees them, with their faults: what is left is the statistics.
struct Simulation {
  double rate = 0.5, sigma = 1.5;
  bool reused = false, last_is_quiet = false;

  std::vector<Observations> trainings(int64_t count, bool with, uint64_t seed) const {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal(0, sigma);
    std::bernoulli_distribution drawn(rate);
    std::vector<Observations> out(static_cast<size_t>(count));
    for (auto& seen : out) {
      double noise = normal(random);
      for (int t = 0; t < 8; ++t) {
        const double in = with && drawn(random) ? 1 : 0;
        seen.all.push_back(in + noise);
        if (!reused) noise = normal(random);
        if (last_is_quiet) seen.last_rank.push_back(in + 1e-3 * normal(random));
      }
    }
    return out;
  }

  TrainingAuditResult audit(int64_t count, uint64_t seed) const {
    TrainingAuditResult out{.trainings = count, .steps = 8, .delta = 1e-5, .confidence = 0.99, .shortest = 1};
    judge(out, run_of(0.5, 1.5, 8), trainings(count, false, 2 * seed), trainings(count, true, 2 * seed + 1));
    return out;
  }
};

TEST(TrainingAudit, TellsFaultsFromTheClaim) {
  auto right = Simulation{}.audit(600, 1);
  EXPECT_EQ(right.verdict(), Verdict::stands) << right.json().dump();
  state_bounds(right, run_of(0.5, 1.5, 8));
  EXPECT_LT(right.lower_epsilon, right.claimed_epsilon);
  EXPECT_GT(right.lower_epsilon, right.claimed_epsilon / 4) << "an audit that finds nothing shows nothing";
  for (const auto& [fault, rule] : {std::pair{Simulation{.sigma = 0.75}, "likelihood"},
                                    {Simulation{.rate = 1}, "likelihood"},
                                    {Simulation{.reused = true}, "spread"},
                                    {Simulation{.last_is_quiet = true}, "last_rank"}}) {
    auto wrong = fault.audit(600, 2);
    EXPECT_EQ(wrong.verdict(), Verdict::wrong) << wrong.json().dump();
    EXPECT_EQ(wrong.found_by, rule);
    if (fault.sigma == 1.5) continue;
    state_bounds(wrong, run_of(0.5, 1.5, 8));
    EXPECT_GT(wrong.lower_epsilon, wrong.claimed_epsilon);
  }
}

TEST(OneRunBound, RefusesScoresThatAreNoNumbers) {
  std::vector<double> scores(20, 1);
  scores[7] = NAN;
  EXPECT_THROW(one_run_bound(scores, std::vector<bool>(20, true), 1e-5, 0.95), UsageError);
}

// Half the noise is harder to see by a canary that is shorter than the clip norm.
TEST(TrainingAudit, AShortCanaryPromisesLess) {
  const auto claimed = run_of(0.5, 1.5, 8);
  const ClaimedCurve curve(claimed);
  const ObserversRules rules(claimed, curve, 600, 0.99);
  EXPECT_GT(curve.excess(rules.visible(1)), 0);
  EXPECT_LT(curve.excess(rules.visible(0.6)), curve.excess(rules.visible(1)));
}

TEST(TrainingAudit, TooFewTrainingsShowNothing) {
  const auto few = Simulation{}.audit(8, 1);
  EXPECT_EQ(few.verdict(), Verdict::nothing);
  EXPECT_NE(few.why().find("raise --trainings"), std::string::npos) << few.why();
}

// A claim that holds is called wrong as seldom as the confidence says.
TEST(TrainingAudit, KeepsItsConfidence) {
  int wrong = 0;
  for (uint64_t seed = 10; seed < 22; ++seed) wrong += Simulation{}.audit(60, seed).excluded ? 1 : 0;
  EXPECT_LE(wrong, 1);
}

}  // namespace
}  // namespace shade::proof
