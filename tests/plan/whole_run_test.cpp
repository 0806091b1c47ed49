#include "shade/plan/whole_run.h"

#include <gtest/gtest.h>

#include "shade/base/error.h"

namespace shade::plan {
namespace {

WholeRunQuestion asked() {
  return {.tokens = 15e12,
          .devices = 16384,
          .step = Seconds(10),
          .tokens_per_step = 16'000'000,
          .checkpoint = Bytes{int64_t{4'000'000'000'000}},
          .price_per_hour = 2};
}

TEST(WholeRun, FollowsFromTheTimeOfAStep) {
  const auto run = plan_whole_run(asked());
  EXPECT_EQ(run.steps, 937'500);
  EXPECT_DOUBLE_EQ(run.training.count(), 9'375'000);
  EXPECT_DOUBLE_EQ(run.save.count(), 2) << "4 TB at the published 2 TB/s";
  EXPECT_DOUBLE_EQ(run.checkpoints.between_failures.count(), published_failures().between(16384).count());
  EXPECT_DOUBLE_EQ(run.elapsed.count(), run.training.count() / run.checkpoints.goodput);
  EXPECT_NEAR(run.failures * run.checkpoints.between_failures.count(), run.elapsed.count(), 1e-3);
  EXPECT_DOUBLE_EQ(run.device_hours, run.elapsed.count() / 3600 * 16384);
  EXPECT_DOUBLE_EQ(run.price, 2 * run.device_hours);
  EXPECT_EQ(run.save_every, std::llround(run.checkpoints.interval.count() / 10));
}

// Fewer devices have less of the published storage and fail less often.
TEST(WholeRun, ScalesStorageAndFailuresWithDevices) {
  auto question = asked();
  const auto large = plan_whole_run(question);
  question.devices = 1024;
  const auto small = plan_whole_run(question);
  EXPECT_DOUBLE_EQ(small.save.count(), 16 * large.save.count());
  EXPECT_DOUBLE_EQ(small.checkpoints.between_failures.count(), 16 * large.checkpoints.between_failures.count());
  EXPECT_GT(small.checkpoints.goodput, large.checkpoints.goodput);
  question.bytes_per_second = 4e12;
  EXPECT_DOUBLE_EQ(plan_whole_run(question).save.count(), 1) << "as stated";
  question.device_mtbf = Seconds(1024 * 3600);
  EXPECT_DOUBLE_EQ(plan_whole_run(question).checkpoints.between_failures.count(), 3600) << "as stated";
}

TEST(WholeRun, ThatOnlyFailsIsRefused) {
  auto question = asked();
  question.restart = Seconds(1e6);
  EXPECT_THROW((void)plan_whole_run(question), UsageError);
  question = asked();
  question.tokens = 0;
  EXPECT_THROW((void)plan_whole_run(question), UsageError);
}

}  // namespace
}  // namespace shade::plan
