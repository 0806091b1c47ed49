// How long a run stands still for a save of 500 MB: two ranks, half of the state each. Measured, so run alone.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "shade/checkpoint/agreement.h"
#include "shade/checkpoint/store.h"
#include "shade/optim/adamw.h"
#include "tests/support/ranks.h"

namespace shade::checkpoint {
namespace {

constexpr int64_t kStateBytes = 500'000'000;
constexpr int kUnits = 16, kRounds = 5;

double seconds_of(const std::function<void()>& act) {
  const auto begin = Clock::now();
  act();
  return Seconds(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

TEST(Stall, OfAnAsynchronousSaveIsAtMostAFifthOfASynchronousOne) {
  test::run_ranks(2, test::As::processes, [](comm::World& world) {
    const auto all = world.group("all");
    const auto folder = from_rank0(all, "making a folder", [] {
      std::string name = (std::filesystem::temp_directory_path() / "shade_stall_XXXXXX").string();
      return ::mkdtemp(name.data()) == nullptr ? throw Error("cannot make a folder") : name;
    });
    nn::Parameters parameters;
    for (int i = 0; i < kUnits; ++i) {
      parameters.begin_unit(text("unit", i));
      parameters.add(text("unit", i, ".weight"), {kStateBytes / 12 / kUnits}, {});  // a weight, two moments
    }
    shard::ShardConfig config;
    config.shard = shard::Strategy::zero2;
    shard::Runtime runtime(parameters, shard::connect_groups(world, shard::policy_of(config, 2)), config);
    runtime.initialise(1);
    const auto optimizer = optim::make_adamw({});
    const auto step = [&] {  // all that this run does between saves
      std::vector<optim::Slot> slots;
      runtime.begin_step(0);
      for (const auto& shard : runtime.shards()) {
        shard.gradient.fill_(0.5);
        slots.push_back({shard.name, shard.master, shard.gradient, shard.offset});
      }
      optimizer->step(slots, 0.01);
      runtime.updated();
    };
    step();
    const auto on_slowest = [&](double value) {
      auto most = at::full({1}, value, at::kDouble);
      all.all_reduce(most, {.reduce = comm::Reduce::max}).wait();
      return most.item<double>();
    };
    {
      Store store(world.group("checkpoint"), {.folder = folder, .keep = 1});
      std::vector<double> sync, stall, whole;
      for (int i = 0; i < kRounds; ++i) {  // in turns: a disk's mood concerns both
        step();
        all.barrier().wait();
        sync.push_back(on_slowest(seconds_of([&] { store.save(runtime, *optimizer, {}); })));
        step();
        all.barrier().wait();
        whole.push_back(on_slowest(seconds_of([&] {
          stall.push_back(seconds_of([&] { store.save_async(runtime, *optimizer, {}); }));
          store.wait();
        })));
        stall.back() = on_slowest(stall.back());
      }
      // The writer's threads take processor time from the steps beside them.
      std::vector<double> alone, beside;
      for (int i = 0; i < 20; ++i) alone.push_back(seconds_of(step));
      store.save_async(runtime, *optimizer, {});
      for (int i = 0; i < 5; ++i) beside.push_back(seconds_of(step));
      store.wait();
      if (world.rank() == 0)
        std::printf(
            "500 MB of state, 2 ranks, medians of %d: save %.0f ms; save_async stalls %.0f ms (%.1f %%), committed "
            "after "
            "%.0f ms; an optimizer step takes %.0f ms alone, %.0f ms beside the writer\n",
            kRounds, median(sync) * 1e3, median(stall) * 1e3, median(stall) / median(sync) * 100, median(whole) * 1e3,
            median(alone) * 1e3, median(beside) * 1e3);
      EXPECT_LE(median(stall), 0.2 * median(sync));
    }
    all.barrier().wait();
    if (world.rank() == 0) std::filesystem::remove_all(folder);
  });
}

}  // namespace
}  // namespace shade::checkpoint
