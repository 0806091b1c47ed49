// What a simulated rank counts as sent and allocated is what real ranks over Gloo send and allocate.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "shade/base/execution.h"
#include "shade/comm/partition.h"
#include "shade/comm/world.h"
#include "shade/profile/memory.h"
#include "tests/support/ranks.h"

namespace shade::comm {
namespace {

// Every collective, with sizes that don't divide by the ranks, small and large, fp32 and bf16.
std::vector<std::pair<std::string, int64_t>> sent(World& world, at::Device device) {
  const auto group = world.group("all");
  const int ranks = group.size(), rank = group.rank();
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const int64_t size : {int64_t{7}, int64_t{1001}, int64_t{300001}}) {
      const auto options = at::TensorOptions(device).dtype(type);
      const auto whole = at::zeros({size}, options);
      const auto mine = at::zeros({slice_of(size, ranks, rank).size}, options);
      group.all_gather(whole, mine, {.label = "gather"}).wait();
      group.reduce_scatter(mine, whole, {.label = "scatter"}).wait();
      group.all_reduce(whole, {.label = "reduce"}).wait();
      group.broadcast(whole, {.root = 1, .label = "broadcast"}).wait();
    }
  group.barrier({.label = "barrier"}).wait();
  std::vector<std::pair<std::string, int64_t>> out;
  for (const auto& record : world.traffic().drain()) out.emplace_back(record.label, record.wire.count);
  return out;
}

TEST(PlannedTraffic, IsThatOfRealRanks) {
  for (const int ranks : {2, 3}) {
    std::vector<std::vector<std::pair<std::string, int64_t>>> real(static_cast<size_t>(ranks));
    test::run_ranks(ranks, test::As::threads,
                    [&](World& world) { real[static_cast<size_t>(world.rank())] = sent(world, at::kCPU); });
    for (int rank = 0; rank < ranks; ++rank)
      for (const auto device : {at::Device(at::kCPU), at::Device(at::kMeta)}) {
        auto world = World::simulated(rank, ranks, {}, World::Counted::exchange);
        EXPECT_EQ(sent(world, device), real[static_cast<size_t>(rank)]) << rank << " of " << ranks << " on " << device;
        world.leave();
      }
  }
}

// A backend's own sums of bf16 are of fp32 on the wire, ours are not.
TEST(PlannedTraffic, IsTheBackendsOwnOtherwise) {
  const auto wire = [](bool exchange) {
    auto world = World::simulated(0, 4, {}, exchange ? World::Counted::exchange : World::Counted::backend);
    const auto sum = at::zeros({1 << 20}, at::TensorOptions(at::kMeta).dtype(at::kBFloat16));
    world.group("all").all_reduce(sum).wait();
    const auto out = world.traffic().drain().at(0).wire.count;
    world.leave();
    return out;
  };
  EXPECT_EQ(wire(false), 2 * wire(true));
}

// Buffers of a reduction are held while it is issued, and counted.
TEST(PlannedTraffic, CountsBuffersOnMeta) {
  profile::TensorMemory::track_meta();
  const auto memory = std::make_shared<profile::MemoryBook>();
  Execution execution{.memory = memory};
  const ExecutionScope scope(execution);
  auto world = World::simulated(0, 4, {}, World::Counted::exchange);
  const auto options = at::TensorOptions(at::kMeta).dtype(at::kFloat);
  const auto whole = at::empty({4000}, options), mine = at::empty({1000}, options);
  const auto before = memory->now().total.count;
  memory->reset_peak();
  world.group("all").reduce_scatter(mine, whole).wait();
  EXPECT_EQ(memory->peak().total.count - before, 3 * 1000 * 4) << "a slice of every peer";
  EXPECT_EQ(memory->now().total.count, before);
  world.leave();
}

}  // namespace
}  // namespace shade::comm
