// What a private step sends under every strategy, counted and compared with theory: exactly.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "shade/models/registry.h"
#include "shade/optim/config.h"
#include "shade/train/step/step.h"
#include "tests/support/ranks.h"

namespace shade::train {
namespace {

using privacy::ClipStyle, privacy::MethodName;

constexpr int64_t kSamples = 2;

struct Case {
  MethodName method;
  int64_t gathers, reductions;  // of all parameters under full sharding
  ClipStyle style = ClipStyle::flat;
};
const Case kCases[] = {
    {MethodName::none, 2, 1},         // forward, backward
    {MethodName::materialize, 2, 1},  // one backward: no more than that
    {MethodName::bookkeeping, 2, 1},
    {MethodName::bookkeeping, 2, 1, ClipStyle::per_layer},
    {MethodName::flash_bookkeeping, 2, 1},
    {MethodName::automatic, 2, 1},
    {MethodName::ghost, 3, 1},  // a second backward gathers once more, and reduces once
    {MethodName::flash, 3, 1},
    {MethodName::streaming, 2 * kSamples, kSamples},  // a micro-step for every sample
};

// Bytes that one rank sends. Gathered weights that are kept travel once; replicas add up their sums once a step.
int64_t theory(const Case& c, const shard::Policy& policy, int64_t parameters) {
  const int64_t s = policy.shard, r = policy.replicate, bytes = 4 * parameters;
  const int64_t between_shards = bytes / s * (s - 1), between_replicas = 2 * (bytes / s / r * (r - 1));
  const int64_t wide = c.method == MethodName::none ? 1 : 2;  // private sums are sent in fp64
  return ((policy.reshard ? c.gathers : 1) + wide * c.reductions) * between_shards + wide * between_replicas;
}

struct Sent {
  int64_t weights = 0, control = 0;  // bytes
};

Sent sent(comm::World& world) {
  Sent out;
  for (const auto& record : world.traffic().drain()) {
    const bool weights = record.label.starts_with("gather ") || record.label.starts_with("reduce ");
    (weights ? out.weights : out.control) += record.wire.count;
  }
  return out;
}

void check(comm::World& world, shard::Strategy strategy) {
  at::set_num_threads(1);  // small tensors, and a thread for every rank
  shard::ShardConfig config;
  config.shard = strategy;
  config.replicate = 2;
  const auto policy = shard::policy_of(config, world.size());
  const auto groups = shard::connect_groups(world, policy);
  for (const auto& c : kCases) {
    const auto model = models::make_model("linear", {.hidden_dim = 512, .num_layers = 3}, {});  // P divides by ranks
    shard::Runtime runtime(model->parameters(), groups, config);
    runtime.fill([](const nn::Weight&, int64_t, const at::Tensor& out) { out.fill_(0.01); });
    const auto optimizer = optim::make_optimizer({});
    Step step(*model, runtime, *optimizer, optim::make_schedule({}),
              step_options({.dp = c.method, .clip = {.style = c.style}, .noise_seed = 1}, {.rehearsal = true}));
    const std::vector batch{model->synthetic({.samples = kSamples}, 1, at::kFloat)};
    step.run(batch, 4);
    (void)sent(world);  // the second step is like all later ones
    step.run(batch, 4);
    const auto found = sent(world);
    const auto what =
        text(to_string(strategy), ", ", to_string(c.method), " ", to_string(c.style), ", ", world.size(), " ranks");
    EXPECT_EQ(found.weights, theory(c, policy, model->parameters().count())) << what;
    EXPECT_LE(found.control, 1024) << what << ": norms, coefficients and noise stay at home";
  }
}

constexpr shard::Strategy kStrategies[] = {shard::Strategy::ddp, shard::Strategy::zero2, shard::Strategy::zero3,
                                           shard::Strategy::hsdp};

TEST(PrivateTraffic, RealRanksSendWhatTheorySays) {
  for (const auto strategy : kStrategies)
    test::run_ranks(strategy == shard::Strategy::hsdp ? 4 : 2, test::As::threads,
                    [&](comm::World& world) { check(world, strategy); });
}

TEST(PrivateTraffic, OfEightRanksIsTheSameFormula) {
  for (const auto strategy : kStrategies) {
    auto world = comm::World::simulated(3, 8);
    check(world, strategy);
  }
}

}  // namespace
}  // namespace shade::train
