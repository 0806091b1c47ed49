// What the runtime must refuse, and what it must survive. One simulated rank of four: no sockets needed.
#include "shade/shard/runtime.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/support/fault.h"

namespace shade::shard {
namespace {

struct Bench {
  explicit Bench(Strategy strategy, int ranks = 4, ShardConfig others = {})
      : world(comm::World::simulated(1, ranks)), config(others) {
    for (const auto* name : {"embed", "block", "unused", "head"}) {
      parameters.begin_unit(name);
      parameters.add(text(name, ".weight"), {6, 4}, {});
    }
    parameters.begin_unit("adapter");
    parameters.add("adapter.base", {8}, {}).freeze();
    config.shard = strategy;
    runtime.emplace(parameters, connect_groups(world, policy_of(config, ranks)), config);
    runtime->initialise(1);
    runtime->begin_step();
  }
  const nn::Weight& weight(size_t i) { return parameters.weights()[i]; }
  void pass(nn::Pass pass, const std::vector<nn::UnitId>& units) {
    for (const auto unit : units) {
      runtime->enter(unit, pass);
      if (pass == nn::Pass::backward && weight(static_cast<size_t>(unit)).trainable()) {
        runtime->buffer(weight(static_cast<size_t>(unit))).fill_(1);
        runtime->mark_written(weight(static_cast<size_t>(unit)));
      }
      runtime->leave(unit, pass);
    }
  }

  comm::World world;
  nn::Parameters parameters;
  ShardConfig config;
  std::optional<Runtime> runtime;
};

TEST(Runtime, HoldsWeightsOnlyBetweenEnterAndLeave) {
  Bench b(Strategy::zero3);
  b.config.forward_prefetch = false;
  EXPECT_FALSE(b.weight(0).bound());
  b.runtime->begin_forward();
  b.runtime->enter(0, nn::Pass::forward);
  EXPECT_TRUE(b.weight(0).bound());
  EXPECT_EQ(b.weight(0).value().sizes(), (std::vector<int64_t>{6, 4}));
  b.runtime->leave(0, nn::Pass::forward);
  EXPECT_FALSE(b.weight(0).bound());
  EXPECT_ANY_THROW(b.weight(0).value());
  EXPECT_ANY_THROW(b.runtime->leave(0, nn::Pass::forward)) << "left more often than entered";
}

// What is on its way in another type than it was summed in is on its way, too.
TEST(Runtime, LimitsGradientsOnTheirWayInBf16) {
  for (const auto type : {nn::DType::fp32, nn::DType::bf16}) {
    ShardConfig config;
    config.reduce_dtype = type;
    config.in_flight = Bytes{1};
    Bench b(Strategy::zero3, 4, config);
    b.runtime->begin_forward();
    b.pass(nn::Pass::forward, {0, 1, 3});
    b.runtime->begin_backward();
    b.pass(nn::Pass::backward, {3});
    const auto& units = b.runtime->units();
    EXPECT_TRUE(units[3]->reducing()) << "one unit always may be";
    EXPECT_EQ(units[3]->gradient_bytes().count, 24 * (type == nn::DType::bf16 ? 2 : 4)) << to_string(type);
    b.pass(nn::Pass::backward, {1});
    EXPECT_FALSE(units[3]->reducing()) << to_string(type) << ": two are more than a byte";
    EXPECT_TRUE(units[1]->reducing()) << to_string(type);
  }
}

// A lookup's backward reads ids and output gradients alone.
TEST(Runtime, GathersATableThatIsOnlyLookedUpOnce) {
  for (const auto strategy : {Strategy::zero2, Strategy::zero3}) {
    Bench b(strategy);
    b.parameters.only_looked_up(0);
    for (int step = 0; step < 2; ++step) {
      b.runtime->begin_step();
      (void)b.world.traffic().drain();
      b.runtime->begin_forward();
      b.pass(nn::Pass::forward, {0, 1, 3});
      b.runtime->begin_backward();
      b.pass(nn::Pass::backward, {3, 1, 0});
      b.runtime->end_micro_step();
      b.runtime->wait();
      std::map<std::string, int> gathers;
      for (const auto& record : b.world.traffic().drain()) ++gathers[record.label];
      EXPECT_EQ(gathers["reduce embed"], 1);
      EXPECT_EQ(gathers["gather block"], strategy == Strategy::zero3 ? 2 : 1);
      if (step == 1) EXPECT_EQ(gathers["gather embed"], 1) << to_string(strategy);  // the first step learns the order
      EXPECT_FALSE(b.weight(0).bound());
      b.runtime->updated();
    }
  }
}

TEST(Runtime, Zero2KeepsThemUntilTheLastBackward) {
  Bench b(Strategy::zero2);
  b.runtime->begin_step(2);
  for (int micro = 0; micro < 2; ++micro) {
    b.runtime->begin_forward();
    b.pass(nn::Pass::forward, {0, 1, 3});
    EXPECT_TRUE(b.weight(0).bound());
    b.runtime->begin_backward();
    b.pass(nn::Pass::backward, {3, 1, 0});
    EXPECT_EQ(b.weight(0).bound(), micro == 0);
    b.runtime->end_micro_step();
  }
  b.runtime->wait();
}

TEST(Runtime, UnusedUnitsHaveZeroGradientsAndFrozenOnesNone) {
  for (const auto strategy : {Strategy::ddp, Strategy::zero2, Strategy::zero3}) {
    Bench b(strategy);
    for (int step = 0; step < 2; ++step) {
      b.runtime->begin_step();
      b.runtime->begin_forward();
      // In the first step all units are used, in the second one is not: nothing of the first may be left over.
      const auto units = step == 0 ? std::vector<nn::UnitId>{0, 1, 2, 3, 4} : std::vector<nn::UnitId>{0, 1, 3, 4};
      b.pass(nn::Pass::forward, units);
      b.runtime->begin_backward();
      b.pass(nn::Pass::backward, {units.rbegin(), units.rend()});
      b.runtime->end_micro_step();
      b.runtime->wait();
      const auto shards = b.runtime->shards();
      ASSERT_EQ(shards.size(), 4u) << "the frozen unit has no shard";
      for (const auto& shard : shards) {
        const bool used = step == 0 || !shard.name.starts_with("unused");
        EXPECT_EQ(shard.gradient.abs().sum().item<double>() > 0, used) << shard.name << " " << to_string(strategy);
      }
    }
  }
}

TEST(Runtime, ReducesAUnitOnceItsLastUseIsOver) {
  Bench b(Strategy::zero3);
  b.runtime->begin_forward();
  b.pass(nn::Pass::forward, {0, 1, 0});  // a tied weight: the first unit is used twice
  b.runtime->begin_backward();
  (void)b.world.traffic().drain();
  b.pass(nn::Pass::backward, {0});
  const auto reductions = [&] {
    int count = 0;
    for (const auto& record : b.world.traffic().drain()) count += record.label == "reduce embed" ? 1 : 0;
    return count;
  };
  EXPECT_EQ(reductions(), 0) << "more is to come";
  b.pass(nn::Pass::backward, {1, 0});
  EXPECT_EQ(reductions(), 1);
}

// Exact sums become fp32 in their own memory: at once, or piece by piece, each after what is done to it, with several
// pieces a weight, weights that end within a piece, and shards that begin within a weight. A simulated reduction sums
// as many times what a rank has.
TEST(Runtime, NarrowsSumsInTheirOwnMemory) {
  const auto threads = at::get_num_threads();
  struct Place {
    Strategy strategy;
    int rank, ranks;
    Bytes segment;
  };
  for (const auto& [count, changed] : {std::pair{1, true}, {2, true}, {3, true}, {2, false}, {3, false}})
    for (const auto& [strategy, rank, ranks, segment] : {Place{Strategy::ddp, 0, 1, MiB(4)},
                                                         {Strategy::zero3, 0, 1, MiB(4)},
                                                         {Strategy::zero3, 1, 3, MiB(4)},
                                                         {Strategy::zero3, 2, 3, KiB(256)}}) {
      at::set_num_threads(count);
      auto world = comm::World::simulated(rank, ranks);
      nn::Parameters parameters;
      parameters.begin_unit("one");
      const std::vector<int64_t> sizes{100'003, 5, 70'001};
      for (const auto size : sizes) parameters.add(text("one.", size), {size}, {});
      ShardConfig config;
      config.shard = strategy;
      config.segment = segment;
      Runtime runtime(parameters, connect_groups(world, policy_of(config, ranks)), config);
      runtime.initialise(1);
      runtime.sum_exactly(true);
      runtime.begin_step();
      runtime.begin_forward();
      runtime.enter(0, nn::Pass::forward);
      runtime.leave(0, nn::Pass::forward);
      runtime.begin_backward();
      runtime.enter(0, nn::Pass::backward);
      at::manual_seed(1);
      std::vector<at::Tensor> wanted;
      for (const auto& weight : parameters.weights()) {
        auto& sum = wanted.emplace_back(at::randn({weight.shape().at(0)}, at::kDouble));
        runtime.buffer(weight).copy_(sum);
        runtime.mark_written(weight);
        sum *= ranks;
        if (changed) sum += at::arange(sum.numel(), at::kDouble);
      }
      runtime.leave(0, nn::Pass::backward);
      runtime.end_micro_step();
      runtime.wait();
      std::vector<int64_t> seen(sizes.size()), owned(sizes.size());
      const auto change = [&](const at::Tensor& piece, const nn::Weight& weight, int64_t begin) {
        EXPECT_EQ(piece.scalar_type(), at::kDouble);
        if (ranks == 1) EXPECT_EQ(begin, seen[static_cast<size_t>(weight.id())]) << "front to back";
        seen[static_cast<size_t>(weight.id())] += piece.numel();
        piece.add_(at::arange(begin, begin + piece.numel(), at::kDouble));
      };
      if (changed)
        runtime.narrow_gradients(change);
      else
        runtime.narrow_gradients();
      EXPECT_ANY_THROW(runtime.narrow_gradients()) << "what is narrow would be read as wide";
      for (const auto& shard : runtime.shards())
        for (const auto& run : shard.runs) {
          owned[static_cast<size_t>(run.weight->id())] += run.size;
          const auto& sum = wanted[static_cast<size_t>(run.weight->id())].narrow(0, run.begin, run.size);
          EXPECT_TRUE(shard.gradient.narrow(0, run.at, run.size).equal(sum.to(at::kFloat)))
              << run.weight->name() << ", " << count << " threads, rank " << rank << " of " << ranks;
        }
      EXPECT_EQ(seen, changed ? owned : std::vector<int64_t>(sizes.size()));
      runtime.updated();
      for (const auto& shard : runtime.shards())
        EXPECT_EQ(shard.gradient.count_nonzero().item<int64_t>(), 0) << "of no step: not what was in this memory";
    }
  at::set_num_threads(threads);
}

TEST(Runtime, RefusesStepsOutOfOrder) {
  Bench b(Strategy::zero3);
  EXPECT_ANY_THROW(b.runtime->wait()) << "the micro-step was not made";
  b.runtime->begin_forward();
  b.pass(nn::Pass::forward, {0});
  b.runtime->begin_backward({.final_on_leave = false});
  b.pass(nn::Pass::backward, {0});
  b.runtime->complete(b.weight(0));
  EXPECT_ANY_THROW(b.runtime->complete(b.weight(0))) << "complete twice";
  EXPECT_ANY_THROW(b.runtime->buffer(b.weight(0))) << "written after it was complete";
  b.runtime->end_micro_step();
  EXPECT_ANY_THROW(b.runtime->end_micro_step()) << "more than were announced";
}

TEST(Runtime, RecordsWhenGathersWereIssuedAndUsed) {
  Bench b(Strategy::zero3);
  b.runtime->begin_forward();
  b.pass(nn::Pass::forward, {0, 1, 2, 3, 4});
  const auto records = b.runtime->drain_overlap();
  ASSERT_EQ(records.size(), 5u);
  for (const auto& record : records) EXPECT_LE(record.issued, record.used) << record.unit;
  EXPECT_LE(records[1].issued, records[0].used + Seconds(0.01)) << "the second was asked for when the first was used";
  EXPECT_EQ(records[0].wire.count, 3 * 6 * 4) << "a quarter, to three others";
}

TEST(Offload, IsARealFile) {
  ShardConfig config;
  config.offload = true;
  const auto storage = make_storage(config, at::kCPU);
  auto a = storage->zeros(1000, at::kFloat, MemoryKind::parameters);
  auto b = storage->zeros(3, at::kFloat, MemoryKind::parameters);
  EXPECT_EQ(a.sum().item<double>(), 0);
  a.fill_(2);
  EXPECT_EQ(b.sum().item<double>(), 0) << "they don't overlap";
  EXPECT_EQ(storage->zeros(0, at::kFloat, MemoryKind::parameters).numel(), 0);
  config.offload_folder = "/nowhere/at/all";
  EXPECT_NE(test::fault([&] { make_storage(config, at::kCPU); }).find("--offload-folder"), std::string::npos);
}

}  // namespace
}  // namespace shade::shard
