// Every expected time here is computed by hand from round rates.
#include "shade/plan/cost.h"

#include <gtest/gtest.h>

#include "shade/base/error.h"

namespace shade::plan {
namespace {

using comm::Collective;

// A TFLOP/s, and a GB/s for everything that moves.
DeviceProfile round_device() {
  DeviceProfile out;
  out.name = "round";
  out.products["fp32"] = {.per_second = 1e12};
  out.elementwise = {.per_second = 1e9};
  out.inside = {.spec = 1e9, .reachable = 1e9};
  out.network = {.spec = 1e9, .reachable = 1e8};
  return out;
}

StepEvent product(double teraflops, double gigabytes = 0) {
  return {.phase = SpanName::forward, .name = "mm", .flops = teraflops * 1e12, .bytes_read = gigabytes * 1e9};
}

StepEvent gather(double gigabytes, int ranks = 2, const char* group = "gather") {
  return {.kind = EventKind::collective,
          .phase = SpanName::forward,
          .collective = {.kind = Collective::all_gather,
                         .group = group,
                         .ranks = ranks,
                         .payload = {static_cast<int64_t>(gigabytes * 1e9)}}};
}

StepEvent wait_for(size_t index, SpanName phase = SpanName::forward) {
  return {.kind = EventKind::wait, .phase = phase, .waits_for = index};
}

TimePrediction predict(std::vector<StepEvent> events, const DeviceProfile& device = round_device(),
                       const TimeOptions& options = {}, int ranks = 2) {
  StepRecord record;
  record.ranks = ranks;
  record.events = std::move(events);
  return predict_time(record, device, options);
}

TEST(Cost, ComputeAddsUp) {
  auto backward = product(2);
  backward.phase = SpanName::backward;
  const auto found = predict({product(1), backward});
  EXPECT_DOUBLE_EQ(found.step.count(), 3);
  EXPECT_DOUBLE_EQ(found.compute.count(), 3);
  EXPECT_DOUBLE_EQ(found.phases.at("forward").count(), 1);
  EXPECT_DOUBLE_EQ(found.phases.at("backward").count(), 2);
  EXPECT_DOUBLE_EQ(found.work.at("products").count(), 3);
  EXPECT_EQ(found.exposed.count(), 0);
}

TEST(Cost, RooflineIsTheLongerOfTheTwo) {
  EXPECT_DOUBLE_EQ(predict({product(1, 0.5)}).step.count(), 1);
  EXPECT_DOUBLE_EQ(predict({product(1, 3)}).step.count(), 3);
}

TEST(Cost, KindsHaveTheirOwnRates) {
  auto device = round_device();
  device.attention = {.per_second = 5e11};
  device.copies = {.per_second = 2e9};
  device.noise = {.per_second = 1e8};
  device.operators["silu"] = {.per_second = 5e8};
  auto attention = product(1);
  attention.name = "_scaled_dot_product_flash_attention";
  const StepEvent pass{.name = "add", .bytes_read = 5e8, .bytes_written = 5e8};
  const StepEvent copy{.kind = EventKind::copy, .bytes_read = 1e9, .bytes_written = 1e9};
  const StepEvent noise{.kind = EventKind::noise, .bytes_written = 1e9};
  const StepEvent silu{.name = "silu", .bytes_read = 1e9};
  const auto found = predict({attention, pass, copy, noise, silu}, device);
  EXPECT_DOUBLE_EQ(found.work.at("attention").count(), 2);
  EXPECT_DOUBLE_EQ(found.work.at("passes").count(), 1 + 2);
  EXPECT_DOUBLE_EQ(found.work.at("copies").count(), 1);
  EXPECT_DOUBLE_EQ(found.work.at("noise").count(), 10);
  EXPECT_DOUBLE_EQ(found.step.count(), 16);
}

TEST(Cost, NarrowProductsAreSlower) {
  auto device = round_device();
  device.widths = {{64, 1}};
  auto narrow = product(1);
  narrow.rows = 4096, narrow.inner = 16, narrow.columns = 4096;
  EXPECT_DOUBLE_EQ(predict({narrow}, device).step.count(), 4);
  narrow.inner = 64;
  EXPECT_DOUBLE_EQ(predict({narrow}, device).step.count(), 1);
}

TEST(Cost, CommunicationAloneIsExposed) {
  const auto found = predict({gather(2), wait_for(0)});  // half of the buffer comes from the other rank
  EXPECT_DOUBLE_EQ(found.step.count(), 1);
  EXPECT_DOUBLE_EQ(found.exposed.count(), 1);
  EXPECT_DOUBLE_EQ(found.communication.count(), 1);
  EXPECT_EQ(found.compute.count(), 0);
  EXPECT_DOUBLE_EQ(found.phases.at("forward").count(), 1);
}

TEST(Cost, OverlapHidesIt) {
  const auto found = predict({gather(2), product(2), wait_for(0)});
  EXPECT_DOUBLE_EQ(found.step.count(), 2);
  EXPECT_EQ(found.exposed.count(), 0);
  EXPECT_DOUBLE_EQ(found.communication.count(), 1);
}

TEST(Cost, OnlyTheRestIsExposed) {
  const auto found = predict({gather(2), product(0.25), wait_for(0), product(1)});
  EXPECT_DOUBLE_EQ(found.exposed.count(), 0.75);
  EXPECT_DOUBLE_EQ(found.step.count(), 2);
  EXPECT_DOUBLE_EQ(found.events[3].begin.count(), 1);
}

TEST(Cost, CollectiveWaitsForWhatItReads) {
  const auto found = predict({product(1), gather(2), wait_for(1)});
  EXPECT_DOUBLE_EQ(found.events[1].begin.count(), 1);
  EXPECT_DOUBLE_EQ(found.step.count(), 2);
}

TEST(Cost, PrefetchedUnitsQueueOnTheirLink) {
  // Units 0 and 1 are gathered, 1 while 0 computes; two groups share the link.
  const auto found =
      predict({gather(2, 2, "a"), wait_for(0), gather(2, 2, "b"), product(0.5), wait_for(2), product(0.5)});
  EXPECT_DOUBLE_EQ(found.exposed.count(), 1 + 0.5);
  EXPECT_DOUBLE_EQ(found.step.count(), 2.5);
  const auto queued = predict({gather(2, 2, "a"), gather(2, 2, "b"), wait_for(1)});
  EXPECT_DOUBLE_EQ(queued.step.count(), 2);
  auto host = gather(2, 2, "control");
  host.collective.host = true;
  EXPECT_DOUBLE_EQ(predict({gather(4), host}).events[1].begin.count(), 0) << "hosts talk beside the devices";
}

TEST(Cost, CollectiveThatNothingWaitsForEndsTheStep) {
  EXPECT_DOUBLE_EQ(predict({product(0.5), gather(4)}).step.count(), 2.5);
}

TEST(Cost, SmallOperatorsWaitForTheHost) {
  auto device = round_device();
  device.launch = Seconds(1e-3);
  std::vector<StepEvent> events(100,
                                StepEvent{.phase = SpanName::norm, .name = "add", .bytes_read = 1e3});  // a microsecond
  const auto found = predict(events, device);
  EXPECT_NEAR(found.step.count(), 0.1, 2e-6);
  EXPECT_NEAR(found.idle.count(), 0.1 - 99e-6, 2e-6);
  EXPECT_NEAR(found.compute.count(), 100e-6, 1e-9);
  // Behind a long product the host is ahead, and launches cost nothing.
  events.insert(events.begin(), product(1));
  EXPECT_NEAR(predict(events, device).step.count(), 1 + 1e-3 + 100e-6, 1e-9);
  // A CPU computes what it issues: every launch counts.
  device.asynchronous = false;
  EXPECT_NEAR(predict(events, device).step.count(), 1 + 101e-3 + 100e-6, 1e-9);
}

TEST(Cost, CommunicationSlowsComputeDown) {
  auto device = round_device();
  device.contention = 0.5;
  const auto found = predict({gather(2), product(1), wait_for(0)}, device);
  EXPECT_DOUBLE_EQ(found.step.count(), 1.5) << "half of it while the gather is under way, the rest alone";
  EXPECT_DOUBLE_EQ(predict({gather(2), product(0.25), wait_for(0)}, device).compute.count(), 0.5);
}

TEST(Cost, StragglersAreTheSlowestOfAll) {
  EXPECT_EQ(expected_largest(1), 0);
  EXPECT_NEAR(expected_largest(2), 0.564, 0.03);  // exactly 1 / sqrt(pi)
  EXPECT_NEAR(expected_largest(1000), 3.241, 0.02);
  const auto alike = predict({product(1), gather(2), wait_for(1)}, round_device(), {}, 1000);
  const auto apart = predict({product(1), gather(2), wait_for(1)}, round_device(), {.straggler_spread = 0.1}, 1000);
  EXPECT_NEAR((apart.step - alike.step).count(), 0.3241, 2e-3) << "computing is slower, communicating is not";
}

TEST(Cost, WaitForNoCollectiveIsAFault) {
  EXPECT_THROW(predict({product(1), wait_for(0)}), Error);
  EXPECT_THROW(predict({wait_for(0)}), Error);
}

TEST(CollectiveTime, GroupsKnowTheirNodes) {
  const auto shape = group_shape(16, 1, 8);
  EXPECT_EQ(shape.nodes, 2);
  EXPECT_EQ(shape.per_node, 8);
  EXPECT_EQ(group_shape(4, 8, 8).nodes, 4) << "replicas of HSDP: one rank of each node";
  EXPECT_EQ(group_shape(4, 2, 8).nodes, 1);
  EXPECT_EQ(group_shape(2, 1, 8).per_node, 2);
  EXPECT_EQ(group_shape(12, 1, 8).nodes, 2);
}

CollectiveEvent operation(Collective kind, double gigabytes, int ranks, int stride = 1) {
  return {.kind = kind, .ranks = ranks, .stride = stride, .payload = {static_cast<int64_t>(gigabytes * 1e9)}};
}

TEST(CollectiveTime, RingsShareTheNetworkPortsOfANode) {
  auto device = round_device();
  device.inside.latency = Seconds(1e-3);
  device.network.latency = Seconds(1e-2);
  device.collective_start = Seconds(1e-1);
  const auto time = [&](auto... words) { return collective_time(operation(words...), device).count(); };
  EXPECT_NEAR(time(Collective::all_gather, 8.0, 8), 0.1 + 7e-3 + 7, 1e-12);
  EXPECT_NEAR(time(Collective::reduce_scatter, 8.0, 8), 0.1 + 7e-3 + 7, 1e-12);
  // Two nodes of 8: 14 steps inside, one between; 8 ports of 0.1 GB/s.
  EXPECT_NEAR(time(Collective::all_gather, 16.0, 16), 0.1 + 14e-3 + 1e-2 + 15 / 0.8, 1e-9);
  // One rank of each of 4 nodes: a port each.
  EXPECT_NEAR(time(Collective::all_gather, 4.0, 4, 8), 0.1 + 3e-2 + 3 / 0.1, 1e-9);
  // Large: a ring twice. Small: a tree, whose latencies grow with the logarithm of the nodes.
  EXPECT_NEAR(time(Collective::all_reduce, 8.0, 8), 0.1 + 2 * (7e-3 + 7), 1e-9);
  EXPECT_NEAR(time(Collective::all_reduce, 0.0, 64), 0.1 + 2 * (7e-3 + 3e-2), 1e-9);
  EXPECT_NEAR(time(Collective::all_to_all, 16.0, 16), 0.1 + 1e-2 + 8 / 0.1, 1e-9);
  EXPECT_NEAR(time(Collective::broadcast, 1.0, 8), 0.1 + 7e-3 + 1, 1e-9);
  EXPECT_NEAR(time(Collective::barrier, 0.0, 8), 0.1 + 2 * 3e-3, 1e-9);
  EXPECT_EQ(collective_time(operation(Collective::all_gather, 1, 1), device).count(), 0);
}

TEST(CollectiveTime, MeasuredOnesGoBefore) {
  auto device = round_device();
  device.collectives.push_back(
      {.kind = Collective::all_gather, .ranks = 2, .rate = {.points = {{1e8, Seconds(3)}, {1e9, Seconds(7)}}}});
  EXPECT_DOUBLE_EQ(collective_time(operation(Collective::all_gather, 1, 2), device).count(), 7);
  EXPECT_DOUBLE_EQ(collective_time(operation(Collective::all_gather, 1, 4), device).count(), 7 * 0.75 / 0.5);
  EXPECT_DOUBLE_EQ(collective_time(operation(Collective::reduce_scatter, 1, 2), device).count(), 0.5);
  EXPECT_NE(collective_time(operation(Collective::all_gather, 1, 16), device).count(), 7) << "measured in one node";
}

TEST(CollectiveTime, MissingLinkIsNamed) {
  auto device = round_device();
  device.network.reachable = 0;
  EXPECT_THROW(collective_time(operation(Collective::all_gather, 1, 16), device), UsageError);
}

}  // namespace
}  // namespace shade::plan
