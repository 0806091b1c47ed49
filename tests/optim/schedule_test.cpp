#include "shade/optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace shade::optim {
namespace {

TEST(Schedule, WarmUpRisesInEqualPartsAndWastesNoUpdate) {
  for (const auto shape : {Shape::constant, Shape::cosine, Shape::linear}) {
    const Schedule schedule{.shape = shape, .peak = 2, .warmup = 4, .total = 12};
    EXPECT_DOUBLE_EQ(schedule.learning_rate(0), 0.5) << to_string(shape);
    EXPECT_DOUBLE_EQ(schedule.learning_rate(1), 1.0);
    EXPECT_DOUBLE_EQ(schedule.learning_rate(3), 2.0) << "the last update of the warm-up has the peak";
    EXPECT_DOUBLE_EQ(schedule.learning_rate(4), 2.0) << "and so has the first after it";
  }
}

TEST(Schedule, ConstantStays) {
  const Schedule schedule{.peak = 3};
  for (const int64_t step : {int64_t{0}, int64_t{1}, int64_t{1} << 40})
    EXPECT_DOUBLE_EQ(schedule.learning_rate(step), 3);
}

TEST(Schedule, LinearFallsToZeroAtTheEnd) {
  const Schedule schedule{.shape = Shape::linear, .peak = 2, .warmup = 4, .total = 12};
  EXPECT_DOUBLE_EQ(schedule.learning_rate(8), 1.0);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(11), 0.25) << "the last update still moves";
  EXPECT_DOUBLE_EQ(schedule.learning_rate(12), 0);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(1000), 0);
}

TEST(Schedule, CosineFallsToZeroAtTheEnd) {
  const Schedule schedule{.shape = Shape::cosine, .peak = 2, .warmup = 4, .total = 12};
  EXPECT_NEAR(schedule.learning_rate(8), 1.0, 1e-15);
  EXPECT_NEAR(schedule.learning_rate(6), 1 + std::cos(std::numbers::pi / 4), 1e-15);
  EXPECT_NEAR(schedule.learning_rate(11), 1 + std::cos(std::numbers::pi * 7 / 8), 1e-15);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(12), 0);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(1000), 0);
}

TEST(Schedule, WithoutWarmUpBeginsAtThePeak) {
  EXPECT_DOUBLE_EQ((Schedule{.shape = Shape::cosine, .peak = 2, .total = 1}).learning_rate(0), 2);
  EXPECT_DOUBLE_EQ((Schedule{.shape = Shape::linear, .peak = 2, .total = 1}).learning_rate(1), 0);
}

}  // namespace
}  // namespace shade::optim
