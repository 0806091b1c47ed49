// Saved by W1 ranks of one strategy, loaded by W2 of another: the same bits, and the same ten steps from there.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <mutex>

#include "shade/checkpoint/store.h"
#include "shade/models/registry.h"
#include "shade/optim/config.h"
#include "shade/train/step/step.h"
#include "tests/checkpoint/everything.h"
#include "tests/io/scratch.h"
#include "tests/support/ranks.h"

namespace shade::checkpoint {
namespace {

using shard::Strategy;
using Tensors = std::map<std::string, at::Tensor>;

constexpr int64_t kSamples = 12, kBefore = 3, kAfter = 10;
const std::vector<Strategy> kStrategies{Strategy::ddp, Strategy::zero2, Strategy::zero3};
constexpr int kMostRanks = 4;

// A number for each world of 1 to 4 ranks and a strategy.
size_t number(int ranks, size_t strategy) { return static_cast<size_t>(ranks - 1) * kStrategies.size() + strategy; }
constexpr size_t kWorlds = 12;

// All 144 pairs, or 12 in which every world saves once and loads once.
bool chosen(size_t from, size_t to) {
  static const bool full = std::getenv("SHADE_FULL_MATRIX") != nullptr;
  return full || to == (from * 5 + 7) % kWorlds;
}

struct Training {
  Training(comm::World& world, const shard::Groups& groups, Strategy strategy) : all(groups.control) {
    models::SizeOverrides sizes;
    sizes.num_layers = 2;
    model = models::make_model("llama-nano", sizes, {.task = models::Task::classify});
    config.shard = strategy;
    config.segment = KiB(64);
    config.wrap = world.size() % 2 == 0 ? shard::Wrap::module : shard::Wrap::none;
    runtime.emplace(model->parameters(), groups, config);
    runtime->initialise(5);
    optim::OptimConfig how;
    how.lr = 1e-3;
    optimizer = optim::make_optimizer(how);
    step.emplace(*model, *runtime, *optimizer, optim::make_schedule(how));
  }

  void run(int64_t steps) {
    for (int64_t s = 0; s < steps; ++s) {
      const auto batch = model->synthetic({.samples = kSamples, .seq_length = 7},
                                          static_cast<uint64_t>(optimizer->steps()), at::kFloat);
      const auto mine = comm::slice_of(kSamples, all.size(), all.rank());
      step->run(std::vector{batch.rows(mine.begin, mine.size)}, kSamples);
    }
  }
  Tensors state() { return everything(*runtime, *optimizer, model->parameters(), all); }

  comm::Group all;
  std::unique_ptr<models::Model> model;
  shard::ShardConfig config;
  std::optional<shard::Runtime> runtime;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::optional<train::Step> step;
};

double distance(const Tensors& found, const Tensors& wanted) {
  double gap = 0, size = 0;
  for (const auto& [name, value] : wanted) {
    gap += (found.at(name) - value).to(at::kDouble).square().sum().item<double>();
    size += value.to(at::kDouble).square().sum().item<double>();
  }
  return std::sqrt(gap / size);
}

// Worlds that share a mesh share its groups.
struct Meshes {
  explicit Meshes(comm::World& w) : world(&w) {}
  shard::Groups operator()(Strategy strategy) {
    shard::ShardConfig config;
    config.shard = strategy;
    const auto policy = shard::policy_of(config, world->size());
    const std::pair shape{policy.replicate, policy.shard};
    if (!known.contains(shape)) known[shape] = shard::connect_groups(*world, policy);
    known[shape].policy = policy;
    return known[shape];
  }
  comm::World* world;
  std::map<std::pair<int, int>, shard::Groups> known;
};

TEST(Resize, AnyWorldGoesOnWhereAnyOtherStopped) {
  const io::Scratch scratch;
  std::vector<Tensors> saved(kWorlds), later(kWorlds);  // filled by rank 0
  const auto folder = [&](size_t from) { return scratch.path() / text(from); };
  for (int ranks = 1; ranks <= kMostRanks; ++ranks)
    test::run_ranks(ranks, test::As::threads, [&](comm::World& world) {
      Meshes meshes(world);
      const auto group = world.group("checkpoint");
      for (size_t s = 0; s < kStrategies.size(); ++s) {
        const auto me = number(ranks, s);
        Training training(world, meshes(kStrategies[s]), kStrategies[s]);
        training.run(kBefore);
        Store store(group, {.folder = folder(me)});
        store.save_async(*training.runtime, *training.optimizer, {{"from", me}});
        auto then = training.state();
        training.run(kAfter);
        auto after = training.state();
        store.wait();
        if (world.rank() != 0) continue;
        saved[me] = std::move(then);
        later[me] = std::move(after);
      }
    });
  int cases = 0;
  double largest = 0;
  for (int ranks = 1; ranks <= kMostRanks; ++ranks)
    test::run_ranks(ranks, test::As::threads, [&](comm::World& world) {
      Meshes meshes(world);
      const auto group = world.group("checkpoint");
      for (size_t s = 0; s < kStrategies.size(); ++s)
        for (size_t from = 0; from < kWorlds; ++from) {
          if (!chosen(from, number(ranks, s))) continue;
          Training training(world, meshes(kStrategies[s]), kStrategies[s]);
          Store store(group, {.folder = folder(from)});
          const auto manifest = store.load(store.latest().value(), *training.runtime, *training.optimizer);
          EXPECT_EQ(manifest.caller["from"], from);
          const auto loaded = training.state();
          training.run(kAfter);
          const auto after = training.state();
          if (world.rank() != 0) continue;
          const auto where = text("world ", from, " -> ", ranks, " ", to_string(kStrategies[s]));
          for (const auto& [name, value] : saved[from]) EXPECT_TRUE(at::equal(loaded.at(name), value)) << where << name;
          const auto gap = distance(after, later[from]);
          EXPECT_LT(gap, 1e-6) << where;
          largest = std::max(largest, gap);
          ++cases;
        }
    });
  std::printf("%d cases, after %d steps at most %.1e apart\n", cases, static_cast<int>(kAfter), largest);
  EXPECT_GE(cases, 12);
}

}  // namespace
}  // namespace shade::checkpoint
