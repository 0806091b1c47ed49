#include "shade/plan/advice.h"

#include <gtest/gtest.h>

namespace shade::plan {
namespace {

// A TFLOP/s; a GB/s inside of a node of two, a tenth of that between nodes.
DeviceProfile round_device() {
  DeviceProfile out;
  out.products["fp32"] = {.per_second = 1e12};
  out.elementwise = {.per_second = 1e9};
  out.inside = {.spec = 1e9, .reachable = 1e9};
  out.network = {.spec = 1e8, .reachable = 1e8};
  out.ranks_per_node = 2;
  return out;
}

// Gathers, then computes.
Contender contender(const char* name, double gigabytes, double teraflops, int ranks = 2, int64_t samples = 1) {
  Contender out{.name = name, .record = {.ranks = ranks, .samples = samples}};
  if (gigabytes > 0) {
    out.record.events.push_back({.kind = EventKind::collective,
                                 .collective = {.kind = comm::Collective::all_gather,
                                                .group = "gather",
                                                .ranks = ranks,
                                                .payload = {static_cast<int64_t>(gigabytes * 1e9)}}});
    out.record.events.push_back({.kind = EventKind::wait, .waits_for = 0});
  }
  out.record.events.push_back({.name = "mm", .flops = teraflops * 1e12});
  return out;
}

// Half of 4 GB from the other rank takes the second that the other computes longer at 2 GB/s.
TEST(Crossover, IsWhereTimesAreEqual) {
  const auto found = crossovers({contender("sends", 4, 1), contender("computes", 0, 2)}, round_device());
  EXPECT_FALSE(found.network);
  EXPECT_EQ(found.present, 1e9);
  ASSERT_EQ(found.ranges.size(), 2u);
  EXPECT_EQ(found.ranges[0].fastest, "computes");
  EXPECT_EQ(found.ranges[1].fastest, "sends");
  EXPECT_DOUBLE_EQ(found.ranges[0].from, 1e9 / 64);
  EXPECT_NEAR(found.ranges[0].to / 2e9, 1, 0.005);
  EXPECT_EQ(found.ranges[0].to, found.ranges[1].from);
  EXPECT_DOUBLE_EQ(found.ranges[1].to, 16e9);
}

TEST(Crossover, ComparesSamples) {
  const auto found = crossovers({contender("one", 0, 2), contender("four", 0, 4, 2, 4)}, round_device());
  ASSERT_EQ(found.ranges.size(), 1u);
  EXPECT_EQ(found.ranges[0].fastest, "four");
}

TEST(Crossover, VariesTheNetworkWhereItIsUsed) {
  const auto found = crossovers({contender("sends", 4, 1, 8), contender("computes", 0, 2, 8)}, round_device());
  EXPECT_TRUE(found.network);
  EXPECT_EQ(found.present, 1e8);
}

TEST(Crossover, LeavesMeasuredCollectivesAlone) {
  auto device = round_device();
  device.collectives.push_back({.rate = {.per_second = 1e9}});
  EXPECT_TRUE(crossovers({contender("sends", 4, 1), contender("computes", 0, 2)}, device).ranges.empty());
}

}  // namespace
}  // namespace shade::plan
