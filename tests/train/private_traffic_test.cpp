// What a private step sends under zero3, counted and compared with theory: exactly.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "shade/models/registry.h"
#include "shade/optim/config.h"
#include "shade/train/step.h"
#include "tests/support/ranks.h"

namespace shade::train {
namespace {

using privacy::ClipStyle, privacy::MethodName;

constexpr int64_t kSamples = 2;

struct Case {
  MethodName method;
  int64_t parameters;  // how many times all of them travel
  ClipStyle style = ClipStyle::flat;
};
const Case kCases[] = {
    {MethodName::none, 3},         // gather, gather, reduce
    {MethodName::materialize, 3},  // one backward: no more than that
    {MethodName::bookkeeping, 3},
    {MethodName::bookkeeping, 3, ClipStyle::per_layer},
    {MethodName::flash_bookkeeping, 3},
    {MethodName::automatic, 3},
    {MethodName::ghost, 4},  // a second backward gathers once more, and reduces once
    {MethodName::flash, 4},
    {MethodName::streaming, 3 * kSamples},  // a micro-step for every sample
};

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

void check(comm::World& world) {
  at::set_num_threads(1);  // small tensors, and a thread for every rank
  shard::ShardConfig config;
  config.shard = shard::Strategy::zero3;
  const auto groups = shard::connect_groups(world, shard::policy_of(config, world.size()));
  for (const auto& c : kCases) {
    const auto model = models::make_model("linear", {.hidden_dim = 512, .num_layers = 3}, {});  // P divides by ranks
    shard::Runtime runtime(model->parameters(), groups, config);
    runtime.fill([](const nn::Weight&, int64_t, const at::Tensor& out) { out.fill_(0.01); });
    const auto optimizer = optim::make_optimizer({});
    Step step(*model, runtime, *optimizer, optim::make_schedule({}),
              {.dp = {.dp = c.method, .clip_style = c.style, .noise_seed = 1}});
    const std::vector batch{model->synthetic({.samples = kSamples}, 1, at::kFloat)};
    step.run(batch, 4);
    (void)sent(world);  // the second step is like all later ones
    step.run(batch, 4);
    const auto found = sent(world);
    const auto once = model->parameters().count() * 4 / world.size() * (world.size() - 1);
    const auto what = text(to_string(c.method), " ", to_string(c.style), ", ", world.size(), " ranks");
    EXPECT_EQ(found.weights, c.parameters * once) << what;
    EXPECT_LE(found.control, 1024) << what << ": norms, coefficients and noise stay at home";
  }
}

TEST(PrivateTraffic, RealRanksSendWhatTheorySays) { test::run_ranks(2, test::As::threads, check); }

TEST(PrivateTraffic, OfEightRanksIsTheSameFormula) {
  auto world = comm::World::simulated(3, 8);
  check(world);
}

}  // namespace
}  // namespace shade::train
