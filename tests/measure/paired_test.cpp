// Ratios of runs in pairs: exact level under drift and bursts, with a rule that stops; and power.
#include "shade/measure/paired.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "shade/base/median.h"

namespace shade::measure {
namespace {

// A machine that others use: everything becomes slower and slower by `ramp` a run, a drift, minutes in which all takes
// half as long again, processes that differ by 10 %, and single runs that are held up.
class Machine {
 public:
  explicit Machine(int seed, double ramp = 1.01) : random_(static_cast<uint64_t>(seed)), ramp_(ramp) {}
  double time() {
    drift_ = 0.98 * drift_ + 0.05 * normal_(random_);
    slow_ *= ramp_;
    if (coin(0.05)) busy_ = !busy_;
    const double held_up = coin(0.1) ? 1.5 + uniform_(random_) : 1;
    return 10 * slow_ * std::exp(drift_ + 0.1 * normal_(random_)) * (busy_ ? 1.5 : 1) * held_up;
  }
  bool coin(double chance = 0.5) { return uniform_(random_) < chance; }

 private:
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform_;
  double ramp_, slow_ = 1, drift_ = 0;
  bool busy_ = false;
};

// Rounds of a row and its reference in random order, looks as `shade compare` has them, stopped when precise or after
// `most` rounds. `factor`: how much slower the row really is.
Ratio compared(Machine& machine, double factor, int64_t most, bool random_order = true) {
  std::vector<double> ours, theirs;
  for (int64_t look = next_look(0);; look = next_look(look)) {
    look = std::min(look, most);
    while (std::ssize(ours) < look) {
      const bool first = !random_order || machine.coin();
      if (first) theirs.push_back(machine.time());
      ours.push_back(factor * machine.time());
      if (!first) theirs.push_back(machine.time());
    }
    const auto ratio = paired_ratio(ours, theirs, error_of_look(look));
    if (ratio.precise() || look == most) return ratio;
  }
}

TEST(Paired, ARowAgainstItselfIsCalledDifferentInOneOfAHundredAtMost) {
  constexpr int kTrials = 2000;
  int called = 0;
  for (int i = 0; i < kTrials; ++i) {
    Machine machine(i);
    if (compared(machine, 1, 50).distinguishable()) ++called;
  }
  EXPECT_LE(called, kTrials * kRatioError + 3 * std::sqrt(kTrials * kRatioError)) << "of " << kTrials;
}

TEST(Paired, OrderMustBeRandomForThat) {
  const auto called = [](bool random_order) {
    int out = 0;
    for (int i = 0; i < 200; ++i) {
      Machine machine(i, 1.2);
      out += compared(machine, 1, 50, random_order).distinguishable() ? 1 : 0;
    }
    return out;
  };
  EXPECT_GE(called(false), 100) << "who always comes second is always slower";
  EXPECT_LE(called(true), 6);
}

TEST(Paired, SeesADifferenceOf30PercentThroughNoise) {
  int slower = 0, held = 0;
  for (int i = 0; i < 100; ++i) {
    Machine machine(1000 + i);
    const auto ratio = compared(machine, 1.3, 50);
    slower += ratio.verdict() == "slower" ? 1 : 0;
    held += ratio.interval->low <= 1.3 && ratio.interval->high >= 1.3 ? 1 : 0;
  }
  EXPECT_GE(slower, 80);
  EXPECT_GE(held, 97) << "of 100 intervals hold the truth";
}

TEST(Paired, StopsAsSoonAsThreePercentAreReached) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  std::vector<double> ours, theirs;
  for (int i = 0; i < 9; ++i) {
    ours.push_back(11 * std::exp(0.005 * normal(random)));
    theirs.push_back(10 * std::exp(0.005 * normal(random)));
  }
  const auto ratio = paired_ratio(ours, theirs, error_of_look(9));
  EXPECT_TRUE(ratio.precise()) << ratio.describe();
  EXPECT_EQ(ratio.verdict(), "slower");
  EXPECT_NEAR(ratio.value, 1.1, 0.01);
}

// The value is what a reader computes from the two medians in the table, and the interval holds it.
TEST(Paired, TheValueIsTheRatioOfTheMediansAndWithinItsInterval) {
  for (int i = 0; i < 200; ++i) {
    Machine machine(2000 + i, 1.05);
    std::vector<double> ours, theirs;
    for (int run = 0; run < 14; ++run) {
      ours.push_back(machine.time());
      theirs.push_back(machine.time());
    }
    const auto ratio = paired_ratio(ours, theirs);
    EXPECT_DOUBLE_EQ(ratio.value, median(ours) / median(theirs));
    EXPECT_LE(ratio.interval->low, ratio.value);
    EXPECT_GE(ratio.interval->high, ratio.value);
  }
}

// Binomial tables: of 8 values all, of 12 all but 1 on either side, of 20 all but 3.
TEST(Paired, IntervalsOfMediansAreThoseOfTheTables) {
  const auto interval = [](int count) {
    std::vector<double> values;
    for (int i = count; i > 0; --i) values.push_back(i);
    return median_interval(values);
  };
  EXPECT_FALSE(interval(7));
  EXPECT_EQ(interval(8), (std::pair(1.0, 8.0)));
  EXPECT_EQ(interval(12), (std::pair(2.0, 11.0)));
  EXPECT_EQ(interval(20), (std::pair(4.0, 17.0)));
}

TEST(Paired, FewRunsHaveNoInterval) {
  const std::vector<double> ours{2, 2, 2, 2, 2, 2, 2, 2}, theirs{1, 1, 1, 1, 1, 1, 1, 1};
  const auto seven = paired_ratio(std::span(ours).first(7), theirs);
  EXPECT_FALSE(seven.interval) << "seven coins fall alike once in 64 times";
  EXPECT_EQ(seven.verdict(), "too few runs");
  EXPECT_EQ(seven.describe(), "2.00 (7 runs: no interval)");
  EXPECT_TRUE(seven.json().at("interval").is_null());
  EXPECT_EQ(paired_ratio(ours, theirs).verdict(), "slower");
  EXPECT_EQ(paired_ratio(ours, theirs).describe(), "2.00 (2.00 to 2.00)");
}

// Tables of the signed-rank test: of 12 runs the sums 0..7 have 0.9 % on both sides together, 0..8 1.2 %.
TEST(Paired, IntervalsAreThoseOfTheTables) {
  std::vector<double> ours, theirs(12, 1);
  for (int i = 0; i < 12; ++i) ours.push_back(std::exp(i));
  std::vector<double> means;
  for (int i = 0; i < 12; ++i)
    for (int j = i; j < 12; ++j) means.push_back((i + j) / 2.0);
  std::sort(means.begin(), means.end());
  const auto ratio = paired_ratio(ours, theirs);
  EXPECT_NEAR(std::log(ratio.interval->low), means[7], 1e-9);
  EXPECT_NEAR(std::log(ratio.interval->high), means[means.size() - 8], 1e-9);
}

TEST(Paired, AllLooksTogetherErrOncePerHundred) {
  double sum = 0;
  int64_t look = 0;
  for (int i = 0; i < 40; ++i) sum += error_of_look(look = next_look(look));
  EXPECT_LE(sum, kRatioError);
  EXPECT_EQ(next_look(0), 9);
  EXPECT_EQ(next_look(9), 14);
  EXPECT_EQ(error_of_look(10), error_of_look(14)) << "a look that comes early counts as the next one";
}

}  // namespace
}  // namespace shade::measure
