#include "shade/optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace shade::optim {
namespace {

TEST(Schedule, WarmUpRisesFromZeroAndHasThePeakOnce) {
  for (const auto shape : {Shape::constant, Shape::cosine, Shape::linear}) {
    const Schedule schedule{.shape = shape, .peak = 2, .warmup = 4, .total = 12};
    EXPECT_DOUBLE_EQ(schedule.learning_rate(0), 0) << to_string(shape);
    EXPECT_DOUBLE_EQ(schedule.learning_rate(1), 0.5);
    EXPECT_DOUBLE_EQ(schedule.learning_rate(3), 1.5);
    EXPECT_DOUBLE_EQ(schedule.learning_rate(4), 2.0) << "the first update after the warm-up";
    EXPECT_EQ(schedule.learning_rate(5) < 2.0, shape != Shape::constant);
  }
}

// get_linear_schedule_with_warmup(optimizer, 3, 8) and get_cosine_schedule_with_warmup of transformers 5.22, lr 1.
TEST(Schedule, IsThatOfTransformers) {
  const Schedule linear{.shape = Shape::linear, .peak = 1, .warmup = 3, .total = 8};
  const Schedule cosine{.shape = Shape::cosine, .peak = 1, .warmup = 3, .total = 8};
  const double by_line[] = {0, 1. / 3, 2. / 3, 1, 0.8, 0.6, 0.4, 0.2, 0};
  const double by_cosine[] = {
      0, 1. / 3, 2. / 3, 1, 0.9045084971874737, 0.6545084971874737, 0.34549150281252633, 0.09549150281252633, 0};
  for (int64_t step = 0; step <= 8; ++step) {
    EXPECT_NEAR(linear.learning_rate(step), by_line[step], 1e-15) << step;
    EXPECT_NEAR(cosine.learning_rate(step), by_cosine[step], 1e-15) << step;
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
