#include "shade/comm/traffic.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>

#include "shade/comm/partition.h"
#include "tests/support/ranks.h"

namespace shade::comm {
namespace {

// What every algorithm's cost card promises, counted on the wire.
TEST(Traffic, BytesOnTheWireEqualTheCostCards) {
  constexpr int kRanks = 4;
  test::run_ranks(kRanks, test::As::threads, [&](World& world) {
    const auto group = world.group("g");
    const int64_t n = 100'003;  // not divisible by 4, above every small-message limit
    const auto mine = slice_of(n, kRanks, world.rank()).size;
    auto whole = at::ones({n});
    auto slice = at::ones({mine});
    group.all_gather(whole, slice, {.label = "gather"}).wait();
    group.reduce_scatter(slice, whole, {.label = "scatter"}).wait();
    group.all_reduce(whole, {.label = "reduce"}).wait();
    auto small = at::ones({10});
    group.all_reduce(small, {.label = "small"}).wait();
    auto even = at::ones({400});
    group.all_to_all(at::empty({400}), even, {.label = "exchange"}).wait();
    std::map<std::string, int64_t> wire;
    for (const auto& record : world.traffic().drain()) {
      wire[record.label] = record.wire.count;
      EXPECT_LE(record.enqueued, record.started);
      EXPECT_LE(record.started, record.ended);
      EXPECT_EQ(record.ranks, kRanks);
    }
    EXPECT_EQ(wire["gather"], 3 * 4 * mine);
    EXPECT_EQ(wire["scatter"], 4 * (n - mine));
    EXPECT_EQ(wire["reduce"], 3 * 4 * mine + 4 * (n - mine));
    EXPECT_EQ(wire["small"], 3 * 40);
    EXPECT_EQ(wire["exchange"], 3 * 400);
  });
}

// A backend that would round at every hop gets bf16 widened: twice the bytes go.
TEST(Traffic, WidenedSumsCountAsTheyCrossTheWire) {
  test::run_ranks(2, test::As::threads, [](World& world) {
    const auto group = world.group("g", {}, Algorithms::native);
    auto whole = at::ones({1000}, at::kBFloat16);
    auto slice = at::ones({500}, at::kFloat);
    group.reduce_scatter(slice, whole, {.label = "scatter"}).wait();
    group.all_reduce(whole, {.label = "reduce"}).wait();
    group.all_gather(whole, at::ones({500}, at::kBFloat16), {.label = "gather"}).wait();
    std::map<std::string, int64_t> wire;
    for (const auto& record : world.traffic().drain()) wire[record.label] = record.wire.count;
    EXPECT_EQ(wire["scatter"], 500 * 4);
    EXPECT_EQ(wire["reduce"], 2 * 500 * 4);
    EXPECT_EQ(wire["gather"], 500 * 2);
  });
}

TEST(Traffic, ExposedWaitIsCountedHiddenIsNot) {
  test::run_ranks(2, test::As::threads, [](World& world) {
    const auto group = world.group("g");
    auto tensor = at::ones({4});
    if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(120));
    const auto work = group.all_reduce(tensor, {.label = "late"});
    work.wait();
    const auto records = world.traffic().drain();
    ASSERT_EQ(records.size(), 1u);
    if (world.rank() == 0)
      EXPECT_GT(records[0].waited.count(), 0.08);
    else
      EXPECT_LT(records[0].waited.count(), 0.08);
  });
}

TEST(Traffic, UndrainedItForgetsTheOldestAndCounts) {
  TrafficLog log(2);
  for (const char* label : {"a", "b", "c"}) log.add({.label = label})->ended(Clock::now(), {});
  EXPECT_EQ(log.dropped(), 1u);
  const auto records = log.drain();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].label, "b");
}

TEST(Traffic, UnfinishedRecordsStay) {
  TrafficLog log;
  auto open = log.add({.label = "open"});
  log.add({.label = "closed"})->ended(Clock::now(), {});
  EXPECT_EQ(log.drain().size(), 1u);
  open->ended(Clock::now(), {});
  EXPECT_EQ(log.drain().size(), 1u);
}

}  // namespace
}  // namespace shade::comm
