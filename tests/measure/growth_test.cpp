#include "shade/measure/growth.h"

#include <gtest/gtest.h>

#include <cmath>

#include "shade/measure/scan.h"

namespace shade::measure {
namespace {

std::vector<std::pair<double, double>> power(double exponent, double wobble = 0) {
  std::vector<std::pair<double, double>> out;
  double sign = 1;
  for (const double t : {512.0, 1024.0, 2048.0, 4096.0}) {
    out.emplace_back(t, std::pow(t, exponent) * (1 + sign * wobble));
    sign = -sign;
  }
  return out;
}

TEST(Growth, FindsTheExponentAndDoubtsIt) {
  EXPECT_NEAR(fit_growth(power(2)).exponent, 2, 1e-12);
  EXPECT_NEAR(fit_growth(power(2)).high, 2, 1e-6);
  const auto doubtful = fit_growth(power(1, 0.1));
  EXPECT_LT(doubtful.low, 1);
  EXPECT_GT(doubtful.high, 1);
  EXPECT_EQ(fit_growth(power(0.1)).verdict, "constant");
  EXPECT_EQ(fit_growth(power(1.1)).verdict, "O(T)");
  EXPECT_EQ(fit_growth(power(1.9)).verdict, "O(T^2)");
}

// What a scan of ghost's norms really gave: a mean exponent of 1.5, and four fifths of a square at the end.
TEST(Growth, SeesASquareThatHasJustBegun) {
  const auto begun = fit_growth({{512, 62.5}, {1024, 157}, {2048, 424}, {4096, 1214}, {8192, 4360}});
  EXPECT_NEAR(begun.exponent, 1.52, 0.01);
  EXPECT_GT(begun.square, 0.7);
  EXPECT_EQ(begun.verdict, "O(T^2)");
  EXPECT_GT(begun.at_twice(4360), 3.4 * 4360);
  const auto line = fit_growth({{512, 12.7}, {1024, 32.9}, {2048, 96.5}, {4096, 139}, {8192, 190}});
  EXPECT_EQ(line.verdict, "O(T)");
  EXPECT_NEAR(fit_growth(power(2)).square, 1, 1e-9);
  EXPECT_NEAR(fit_growth(power(1)).square, 0, 1e-9);
}

TEST(Growth, NamesTheBottleneckAndItsRemedy) {
  std::vector<Json> results;
  for (const double t : {512.0, 1024.0, 2048.0})
    results.push_back({{"dp", "ghost"},
                       {"seq_length", t},
                       {"avg_time_ms", t * t / 1000 + 2 * t},
                       {"phases_ms", {{"forward", t}, {"first_backward", t + t * t / 1000}, {"norm", t * t / 1000}}}});
  const auto verdict = judge(results);
  EXPECT_EQ(verdict.bottleneck, "norms of ghost: O(T^2)");
  EXPECT_NE(verdict.remedy.find("--norm-algorithm input_length"), std::string::npos);
  for (const auto& phase : verdict.phases) {
    if (phase.phase == "first_backward") {
      EXPECT_EQ(phase.growth.verdict, "O(T)") << "without the norms inside of it";
    }
  }
}

}  // namespace
}  // namespace shade::measure
