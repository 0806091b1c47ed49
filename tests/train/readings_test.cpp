#include "shade/train/step/step_sums.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace shade::train {
namespace {

TEST(Readings, AreInTheOrderInWhichTheyWereAdded) {
  Readings numbers;
  const auto pair = numbers.add(at::tensor({1.5, -2.0}, at::kDouble));
  const auto none = numbers.add({}, 3);
  const auto whole = numbers.add(at::full({}, 7, at::kLong));
  const auto planned = numbers.add(at::empty({2}, at::TensorOptions(at::kMeta).dtype(at::kDouble)), 2);
  const auto strided = numbers.add(at::arange(6, at::kFloat).view({2, 3}).t());
  numbers.read();
  EXPECT_EQ(numbers[pair], 1.5);
  EXPECT_EQ(numbers[pair + 1], -2.0);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(numbers[none + i], 0);
  EXPECT_EQ(numbers[whole], 7);
  EXPECT_EQ(numbers[planned + 1], 0) << "a plan has no numbers";
  EXPECT_EQ(numbers[strided + 1], 3);
  EXPECT_ANY_THROW(numbers[strided + 6]);
}

// Of gradients in place; of none on the CPU there is a copy.
TEST(HostSums, OnTheCpuAreTheGradientsThemselves) {
  const std::vector<shard::LocalShard> shards{{.name = "a", .master = {}, .gradient = at::zeros({4})}};
  HostSums sums(shards, at::kCPU);
  ASSERT_EQ(sums.values().size(), 1u);
  EXPECT_TRUE(sums.values()[0].is_same(shards[0].gradient));
  sums.values()[0].fill_(3);
  sums.give_back();
  EXPECT_EQ(shards[0].gradient.sum().item<double>(), 12);
}

}  // namespace
}  // namespace shade::train
