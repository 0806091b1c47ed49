#include "shade/plan/whole_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "shade/base/error.h"

namespace shade::plan {
namespace {

TEST(CheckpointInterval, PublishedFleetFailsEveryThreeHours) {
  const auto& fleet = published_failures();
  EXPECT_NEAR(fleet.between(16384).count() / 3600, 2.78, 0.01);
  EXPECT_NEAR(fleet.between(1024).count(), 16 * fleet.between(16384).count(), 1e-6) << "fewer devices fail less often";
}

TEST(CheckpointInterval, IsYoungAndDaly) {
  const auto plan = plan_checkpoints(Seconds(10'000), Seconds(50), Seconds(0));
  EXPECT_NEAR(plan.interval.count(), 950, 1e-9);  // sqrt(2 * 50 * 10000) - 50
  EXPECT_NEAR(plan.repeated, 0.05, 1e-12);
  EXPECT_NEAR(plan.saving, 0.95 * 0.05, 1e-12);
  EXPECT_NEAR(plan.goodput + plan.saving + plan.repeated + plan.restarting, 1, 1e-12);
}

// A run on a clock: works an interval, saves, and goes back to the last save when it fails.
double simulated_goodput(double mean, double interval, double save, double restart) {
  std::mt19937_64 random(7);
  std::exponential_distribution<double> failure(1 / mean);
  double clock = 0, kept = 0, next = failure(random);
  const double end = 4000 * mean;
  while (clock < end) {
    if (clock + interval + save <= next) {
      clock += interval + save;
      kept += interval;
    } else {
      clock = next + restart;
      next = clock + failure(random);
    }
  }
  return kept / clock;
}

TEST(CheckpointInterval, GoodputIsThatOfASimulatedRunAndNoIntervalIsMuchBetter) {
  const double mean = published_failures().between(16384).count();
  const auto plan = plan_checkpoints(Seconds(mean), Seconds(30), Seconds(300));
  const auto at = [&](double factor) { return simulated_goodput(mean, plan.interval.count() * factor, 30, 300); };
  EXPECT_NEAR(at(1), plan.goodput, 0.01);
  for (const double factor : {0.3, 0.6, 1.7, 3.0}) EXPECT_LT(at(factor), at(1) + 0.003) << factor;
  EXPECT_GT(plan.goodput, 0.85);
}

TEST(CheckpointInterval, SavingThatTakesForeverIsNoInterval) {
  const auto plan = plan_checkpoints(Seconds(100), Seconds(90), Seconds(50));
  EXPECT_EQ(plan.interval.count(), 100);
  EXPECT_GE(plan.goodput, 0);
  EXPECT_LE(plan.goodput, 0.5);
  EXPECT_THROW(plan_checkpoints(Seconds(0), Seconds(1), Seconds(1)), UsageError);
  EXPECT_THROW(published_failures().between(0), UsageError);
}

}  // namespace
}  // namespace shade::plan
