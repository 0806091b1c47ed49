#include "shade/comm/backends/simulated.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "shade/comm/mesh.h"
#include "shade/comm/partition.h"
#include "shade/comm/world.h"

namespace shade::comm {
namespace {

constexpr CostModel kCost{.inside = {Seconds(1e-6), 100e9}, .between = {Seconds(1e-5), 10e9}, .ranks_per_host = 8};

TEST(Simulated, SixteenThousandRanksInOneProcess) {
  constexpr int kRanks = 16384;
  auto world = World::simulated(77, kRanks, kCost);
  const auto group = world.group("shard");
  const int64_t total = int64_t{8} << 30;  // 8 Gi elements: an 8B model's gather, on meta tensors
  const auto meta = at::TensorOptions(at::kMeta).dtype(at::kBFloat16);
  group.all_gather(at::empty({total}, meta), at::empty({slice_of(total, kRanks, 77).size}, meta)).wait();
  group
      .reduce_scatter(at::empty({slice_of(total, kRanks, 77).size}, meta.dtype(at::kFloat)),
                      at::empty({total}, meta.dtype(at::kFloat)))
      .wait();
  const auto done = world.journal().operations();
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].payload.count, 2 * total);
  EXPECT_EQ(done[0].wire.count, 2 * (total - total / kRanks));
  EXPECT_EQ(done[1].wire.count, 4 * (total - total / kRanks));
  const double w = kRanks;
  EXPECT_NEAR((done[0].end - done[0].start).count(),
              (w - 1) * 1e-5 + 2.0 * static_cast<double>(total) * (w - 1) / w / 10e9, 1e-9);
  EXPECT_EQ(done[1].start, done[0].end) << "one group's operations queue";
}

TEST(Simulated, AHostsOwnRanksUseTheFastLink) {
  const std::vector<int> one_host{8, 9, 10, 11};
  const std::vector<int> two_hosts{6, 7, 8, 9};
  const Bytes bytes = MiB(1);
  const double n = static_cast<double>(bytes.count);
  EXPECT_DOUBLE_EQ(kCost.price(Collective::all_gather, bytes, one_host).count(), 3e-6 + n * 0.75 / 100e9);
  EXPECT_DOUBLE_EQ(kCost.price(Collective::all_reduce, bytes, two_hosts).count(), 2 * (3e-5 + n * 0.75 / 10e9));
  EXPECT_DOUBLE_EQ(kCost.price(Collective::broadcast, bytes, two_hosts).count(), 2e-5 + n / 10e9);
  EXPECT_DOUBLE_EQ(kCost.price(Collective::barrier, {}, two_hosts).count(), 4e-5);
  EXPECT_EQ(kCost.price(Collective::all_gather, bytes, std::vector<int>{3}), Seconds(0));
}

TEST(Simulated, WaitingMovesTheClockComputingOverlaps) {
  auto world = World::simulated(0, 8, kCost);
  const auto gathers = world.group("gathers");
  const auto reductions = world.group("reductions");
  auto tensor = at::ones({1 << 20});
  const auto price = kCost.price(Collective::all_reduce, MiB(4), gathers.global_ranks());
  const auto first = gathers.all_reduce(tensor);
  const auto second = reductions.all_reduce(tensor);  // another group: in parallel
  world.journal().compute(price / 2);
  EXPECT_EQ(world.journal().now(), price / 2);
  first.wait();
  EXPECT_EQ(world.journal().now(), price) << "half of it was hidden by computing";
  second.wait();
  EXPECT_EQ(world.journal().now(), price);
}

TEST(Simulated, SoloPeersHoldTheSameData) {
  auto world = World::simulated(1, 3, kCost);
  const auto group = world.group("g");
  auto whole = at::empty({6});
  group.all_gather(whole, at::tensor({1.f, 2.f})).wait();
  EXPECT_TRUE(at::equal(whole, at::tensor({1.f, 2.f, 1.f, 2.f, 1.f, 2.f})));
  auto slice = at::empty({2});
  group.reduce_scatter(slice, at::arange(6).to(at::kFloat)).wait();
  EXPECT_TRUE(at::equal(slice, at::tensor({6.f, 9.f})));
  auto sum = at::ones({5});
  group.all_reduce(sum).wait();
  EXPECT_TRUE(at::equal(sum, at::full({5}, 3.f)));
}

TEST(Simulated, TrafficRecordAgreesWithTheJournal) {
  auto world = World::simulated(0, 64, kCost);
  const Mesh mesh(world, {{"replicate", 8}, {"shard", 8}});
  const auto group = mesh.group("shard", "gather");
  const auto meta = at::TensorOptions(at::kMeta);
  group.all_gather(at::empty({8000}, meta), at::empty({1000}, meta), {.label = "unit 3"}).wait();
  const auto records = world.traffic().drain();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].label, "unit 3");
  EXPECT_EQ(records[0].wire, world.journal().operations()[0].wire);
  EXPECT_EQ(records[0].wire.count, 7 * 4000);
}

}  // namespace
}  // namespace shade::comm
