#include "shade/train/feed/micro_batch.h"

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

  // Records of one user, of whom too many are refused before they are tried.
  tried.clear();
  require_records_fit(group, 11, {base + MiB(20)}, attempt);
  EXPECT_EQ(tried, (std::vector<int64_t>{1, 2, 4, 8, 11}));
  tried.clear();
  EXPECT_EQ(test::fault([&] { require_records_fit(group, 24, {base + MiB(20)}, attempt); }),
            text("one user with 24 records needs more than ", to_string(base + MiB(20)),
                 " of tensors, the limit of a rank; about 20 fit: lower --max-records-per-user, shorten --seq-length, "
                 "raise --memory-limit or set --checkpointing block"));
  EXPECT_EQ(tried.back(), 16);
  tried.clear();
  EXPECT_NE(test::fault([&] { require_records_fit(group, int64_t{1} << 60, {base + GiB(1)}, attempt); }), "no error");
  EXPECT_EQ(tried.back(), 16);
  EXPECT_NE(test::fault([&] { require_records_fit(group, 1, {base + KiB(100)}, attempt); }), "no error");
  world.leave();
}

}  // namespace
}  // namespace shade::train
