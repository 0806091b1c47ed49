#include "shade/train/micro_batch.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "shade/comm/world.h"
#include "shade/profile/memory.h"
#include "tests/support/fault.h"

namespace shade::train {
namespace {

TEST(MicroBatch, IsTheLargestThatFits) {
  profile::TensorMemory::track();
  auto world = comm::World::connect({}, {});
  const auto group = world.group("all");
  std::vector<int64_t> tried;
  const auto attempt = [&](int64_t samples) {
    tried.push_back(samples);
    (void)at::empty({samples, 1 << 20}, at::kByte);
  };
  const auto base = profile::TensorMemory::current();
  EXPECT_EQ(choose_micro_batch(group, 100, {base + MiB(20)}, attempt).samples, 16);
  EXPECT_EQ(tried, (std::vector<int64_t>{1, 2, 4, 8, 16})) << "32 would not fit, and is not tried";
  EXPECT_EQ(choose_micro_batch(group, 11, {base + MiB(20)}, attempt).samples, 11);
  EXPECT_NE(test::fault([&] { choose_micro_batch(group, 8, {base + KiB(100)}, attempt); }).find("raise --memory-limit"),
            std::string::npos);
  world.leave();
}

}  // namespace
}  // namespace shade::train
