// Laws from points: known laws with noise, sums, and what must not be called a law.
#include "shade/measure/growth.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

namespace shade::measure {
namespace {

const std::vector<double> kFour{512, 1024, 2048, 4096}, kFive{1024, 2048, 4096, 8192, 16384};

// Shares of 1, T and T^2 at the longest length; noise is relative.
Points draw(const std::array<double, 3>& shares, const std::vector<double>& lengths, int runs, double noise,
            std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  Points out;
  for (const double length : lengths)
    for (int run = 0; run < runs; ++run) {
      const double t = length / lengths.back();
      const double exact = 80 * (shares[0] + shares[1] * t + shares[2] * t * t);
      out.emplace_back(length, exact * std::max(0.05, 1 + noise * normal(random)));
    }
  return out;
}

std::map<std::string, int> verdicts(const std::array<double, 3>& shares, const std::vector<double>& lengths, int runs,
                                    double noise = 0.2) {
  std::mt19937_64 random(7);
  std::map<std::string, int> out;
  for (int i = 0; i < 200; ++i) ++out[fit_growth(draw(shares, lengths, runs, noise, random)).verdict];
  return out;
}

const std::array<const char*, 3> kLaws{"constant", "O(T)", "O(T^2)"};

// Of 200 draws with 20 % noise, in the design of `shade scan` (5 runs of each length) and with 3 runs of five lengths.
TEST(Growth, FindsPureLawsThroughNoise) {
  for (const auto& [lengths, runs] : {std::pair(kFour, 5), {kFive, 5}, {kFive, 3}})
    for (size_t law = 0; law < 3; ++law) {
      std::array<double, 3> shares{};
      shares[law] = 1;
      auto found = verdicts(shares, lengths, runs);
      EXPECT_GE(found[kLaws[law]], 190) << kLaws[law] << ", " << lengths.size() << " lengths x " << runs;
      EXPECT_LE(200 - found[kLaws[law]] - found["undecided"], 2)
          << kLaws[law] << ", " << lengths.size() << " lengths x " << runs;
    }
}

TEST(Growth, NamesTheTermThatHolds80PercentAtTheLongestLength) {
  const std::pair<std::array<double, 3>, std::string> cases[] = {
      {{0.1, 0.9, 0}, "O(T)"},     {{0, 0.9, 0.1}, "O(T)"},  {{0, 0.1, 0.9}, "O(T^2)"}, {{0.05, 0.05, 0.9}, "O(T^2)"},
      {{0.9, 0.1, 0}, "constant"}, {{0.5, 0.5, 0}, "mixed"}, {{0, 0.5, 0.5}, "mixed"},  {{0.33, 0.33, 0.34}, "mixed"},
      {{0.3, 0.7, 0}, "mixed"},    {{0, 0.3, 0.7}, "mixed"}};
  for (const auto& [shares, verdict] : cases) {
    EXPECT_GE(verdicts(shares, kFive, 5, 0.02)[verdict], 198) << verdict << " " << shares[0] << " " << shares[1];
    auto found = verdicts(shares, kFive, 5);
    EXPECT_LE(200 - found[verdict] - found["undecided"], 10)
        << verdict << " " << shares[0] << " " << shares[1] << ": undecided is right with 20 % noise, wrong is not";
  }
}

TEST(Growth, ALawExcludesTheNextOne) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 200; ++i) {
    const auto growth = fit_growth(draw({0, 1, 0}, kFour, 1, 0.4, random));
    if (growth.verdict == "O(T)") {
      EXPECT_GT(growth.interval->low, 0);
      EXPECT_LT(growth.interval->high, 2);
      EXPECT_LT(growth.interval->low, *growth.exponent + 1e-9);
      EXPECT_GT(growth.interval->high - growth.interval->low, 0.05) << "certainty is never complete";
    }
  }
}

// 70 % T with 30 % T^2 can't be told from T through 20 % noise, and can be through 2 %.
TEST(Growth, LessNoiseTellsMore) { EXPECT_GE(verdicts({0, 0.7, 0.3}, kFive, 5, 0.02)["mixed"], 190); }

TEST(Growth, TwoLengthsAreNoLaw) {
  const auto two = fit_growth({{512, 1}, {512, 1.01}, {1024, 4}, {1024, 4.02}});
  EXPECT_NEAR(*two.exponent, 2, 0.1);
  EXPECT_FALSE(two.interval);
  EXPECT_EQ(two.verdict, "undecided");
  EXPECT_EQ(fit_growth({{512, 1}}).verdict, "undecided");
  EXPECT_FALSE(fit_growth({{512, 1}}).exponent);
}

// What a sharded scan once gave a phase whose wait was taken off twice: 0.001 ms three times, then 11.9.
TEST(Growth, AnIntervalThatDecidesNothingIsUndecided) {
  EXPECT_EQ(fit_growth({{512, 5}, {1024, 0.4}, {2048, 30}, {4096, 11.9}}).verdict, "undecided");
  const auto wide = fit_growth({{128, 5}, {128, 18}, {256, 12}, {256, 14}, {512, 18}, {512, 35}});
  EXPECT_LT(wide.interval->low, 0.2);
  EXPECT_GT(wide.interval->high, 1.5);
  EXPECT_EQ(wide.verdict, "undecided");
  EXPECT_EQ(fit_growth({{512, 0}, {1024, 0}, {2048, 0}, {4096, 11.9}}).verdict, "undecided") << "one length is left";
}

TEST(Growth, KnowsWhatIsOutsideOfTheModel) {
  const auto power = [](double exponent) {
    Points out;
    for (const double length : kFour) out.insert(out.end(), 3, {length, std::pow(length / 512, exponent)});
    return out;
  };
  EXPECT_EQ(fit_growth(power(3.19)).verdict, "faster than O(T^2)");
  EXPECT_EQ(fit_growth(power(-0.5)).verdict, "falling");
  EXPECT_EQ(fit_growth(power(2)).verdict, "O(T^2)");
  Points once;
  for (const double length : kFour) once.emplace_back(length, std::pow(length / 512, 3.19));
  EXPECT_EQ(fit_growth(once).verdict, "undecided") << "times that were measured once";
  EXPECT_EQ(fit_growth(once, kMemoryScatter).verdict, "faster than O(T^2)") << "memory is exact";
}

TEST(Growth, PredictsByTheFittedTerms) {
  Points points;
  for (const double t : kFive) points.emplace_back(t, 3 + 0.01 * t + 1e-6 * t * t);
  const auto growth = fit_growth(points, kMemoryScatter);
  EXPECT_NEAR(growth.at(16384), points.back().second, 0.05 * points.back().second);
  EXPECT_NEAR(growth.at(32768), 3 + 327.68 + 1073.7, 0.1 * 1404);
  EXPECT_NEAR(growth.shares[2], 268.4 / 435.3, 0.1);
  EXPECT_LE(growth.between[2].low, growth.shares[2]);
  EXPECT_GE(growth.between[2].high, growth.shares[2]);
}

// What a scan of ghost's norms really gave: a mean exponent of 1.5, and four fifths of a square at the end.
TEST(Growth, SeesASquareThatHasJustBegun) {
  const auto begun = fit_growth({{512, 62.5}, {1024, 157}, {2048, 424}, {4096, 1214}, {8192, 4360}});
  EXPECT_NEAR(*begun.exponent, 1.75, 0.15);
  EXPECT_GT(begun.shares[2], 0.6);
  EXPECT_NE(begun.verdict, "O(T)");
}

}  // namespace
}  // namespace shade::measure
