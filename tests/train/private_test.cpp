// Private steps on real ranks: the gradient, the noise, batches of any size, and what they send.
//
// SHADE_FULL_MATRIX: every model, dtype, accumulation, method and strategy of `shade verify --all`, and every style.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "shade/models/registry.h"
#include "shade/optim/config.h"
#include "shade/proof/verify.h"
#include "shade/train/step/step.h"
#include "tests/support/ranks.h"

namespace shade::train {
namespace {

using privacy::ClipStyle, privacy::MethodName;
using proof::Verification;
using shard::Strategy;

const bool full = std::getenv("SHADE_FULL_MATRIX") != nullptr;

void run(int ranks, const std::function<void(comm::World&)>& body) {
  test::run_ranks(ranks, test::As::threads, [&](comm::World& world) {
    at::set_num_threads(1);  // small tensors, and a thread for every rank
    body(world);
  });
}

// What each world size checks of the whole product: together every method, strategy, model and dtype.
std::vector<Verification> matrix(int ranks) {
  if (full) {
    return {Verification({.all = true}),
            Verification({.clip_styles = {"per_layer", "group", "automatic", "adaptive"}})};
  }
  const auto of = [](const char* model, models::Task task) {
    Verification run;
    run.model.model = model, run.model.task = task;
    return run;
  };
  const auto tied = of("qwen2-nano", models::Task::lm), dit = of("dit-nano", models::Task::denoise);
  auto several = tied;  // accumulation
  several.verify.all = true;
  auto lora = of("llama-nano", models::Task::classify);
  lora.model.lora_rank = 3;
  const auto users = [](Verification run) {  // of 1 to 3 records each
    run.budget.max_records_per_user = 3;
    return run;
  };
  const auto with = [](Verification run, std::vector<std::string> strategies, std::vector<std::string> dtypes,
                       std::vector<std::string> styles = {"flat"}, std::vector<std::string> methods = {}) {
    run.verify.strategies = std::move(strategies);
    run.verify.dtypes = std::move(dtypes);
    run.verify.clip_styles = std::move(styles);
    run.verify.methods = std::move(methods);
    return run;
  };
  switch (ranks) {
    case 1:
      return {with(Verification(), {"none"}, {"fp32"}, {}, {"ghost", "auto"}),
              with(tied, {"none"}, {"bf16", "fp64"}, {"group"})};
    case 2:
      return {with(tied, {"zero2", "zero3"}, {"fp32"}),
              with(several, {"zero3"}, {"bf16"}, {"flat"}, {"ghost", "streaming", "auto"}),
              with(several, {"zero3"}, {"fp64"}, {"flat"}, {"materialize", "flash", "bookkeeping"}),
              with(users(several), {"zero3"}, {"fp32", "bf16"})};
    case 3:
      return {with(dit, {"zero2"}, {"fp64"}), with(lora, {"zero3", "ddp"}, {"fp32"}, {"per_layer"}),
              with(users(lora), {"zero2", "ddp"}, {"fp32"}, {"per_layer"})};
    default:
      return {with(tied, {"hsdp"}, {"fp32"}), with(dit, {"hsdp"}, {"bf16"}, {"automatic"}),
              with(users(dit), {"hsdp"}, {"fp64"})};
  }
}

class Private : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Private, testing::Values(1, 2, 3, 4));

TEST_P(Private, GradientsAreThoseOfOneSampleAtATime) {
  for (const auto& checked : matrix(GetParam()))
    run(GetParam(), [&](comm::World& world) {
      auto wanted = checked;
      if (wanted.model.task == models::Task::lm) wanted.sizes.vocab_size = 71;  // T, D and P all different
      const auto rows = proof::verify(world, wanted, {});
      EXPECT_FALSE(rows.empty());
      for (const auto& row : rows) EXPECT_TRUE(row.pass) << row.json();
      if (world.rank() == 0) std::printf("%d ranks: %zu rows\n", world.size(), rows.size());
    });
}

// Steps with the loader update weights, and optimizers are fp32.
TEST(Verify, SaysWhatItLeavesOut) {
  EXPECT_EQ(proof::left_out(Verification()), "");
  EXPECT_EQ(proof::left_out(Verification({.all = true})), "");
  EXPECT_EQ(proof::left_out(Verification({.dtypes = {"fp32", "bf16"}})), "");
  EXPECT_NE(proof::left_out(Verification({.dtypes = {"fp32", "fp64"}})).find("not checked in fp64"), std::string::npos);
  Verification named;
  named.model.model = "linear-nano";
  EXPECT_NE(proof::left_out(named).find("not checked with --model"), std::string::npos);
  for (const auto& [dtype, steps] : {std::pair("fp64", 0), {"fp32", 1}})
    run(1, [&](comm::World& world) {
      const auto rows = proof::verify(
          world,
          Verification({.methods = {"auto"}, .strategies = {"none"}, .dtypes = {dtype}, .clip_styles = {"flat"}}), {});
      const auto with_loader = [](const auto& row) { return row.model.ends_with("loader"); };
      EXPECT_EQ(std::count_if(rows.begin(), rows.end(), with_loader), steps) << dtype;
    });
}

// A learned variance's loss and gradient are the sample's own too; positions that are fixed have none.
TEST(PrivateDit, AsPublishedGradientsAreThoseOfOneSampleAtATime) {
  run(2, [&](comm::World& world) {
    Verification published({.strategies = {"zero3"}, .dtypes = {"fp64"}});
    published.model.model = "dit-nano", published.model.task = models::Task::denoise;
    published.sizes = {.positions = nn::Positions::sincos, .learn_sigma = true};
    const auto rows = proof::verify(world, published, {});
    EXPECT_FALSE(rows.empty());
    for (const auto& row : rows) EXPECT_TRUE(row.pass) << row.json();
  });
}

// A model, sharded in some way, that takes private steps.
struct Trained {
  Trained(const shard::Groups& groups, Strategy strategy, const privacy::DpConfig& dp,
          const std::string& name = "qwen2-nano")
      : model(models::make_model(name, {}, {.task = models::Task::lm})),
        runtime(model->parameters(), groups, config_of(strategy)),
        step(*model, runtime, *optimizer, optim::make_schedule(sgd()), step_options(dp, {.rehearsal = true})) {
    runtime.initialise(5);
  }
  static shard::ShardConfig config_of(Strategy strategy) {
    shard::ShardConfig config;
    config.shard = strategy;
    config.segment = KiB(16);  // several segments in a unit
    return config;
  }
  static optim::OptimConfig sgd() {
    optim::OptimConfig config;
    config.optimizer = optim::Algorithm::sgd;
    config.lr = 0.1;
    config.weight_decay = 0;
    return config;
  }
  std::vector<at::Tensor> whole(shard::Runtime::Part part) {
    std::vector<at::Tensor> out;
    for (const auto& weight : model->parameters().weights()) out.push_back(runtime.whole(weight, part));
    return out;
  }
  nn::Batch batch(int64_t samples, uint64_t seed) const {
    return model->synthetic({.samples = samples, .seq_length = 5}, seed, at::kFloat);
  }

  std::unique_ptr<models::Model> model;
  shard::Runtime runtime;
  std::unique_ptr<optim::Optimizer> optimizer = optim::make_optimizer(sgd());
  Step step;
};

privacy::DpConfig private_config(MethodName method) {
  return {.dp = method, .sigma = 0.5, .max_grad_norm = 0.3, .noise_seed = 21};
}

// Runs `body(groups, strategy, method)` for every strategy on one world, each with the next of the methods (or all).
using Body = std::function<void(const shard::Groups&, Strategy, MethodName)>;
void each_strategy(comm::World& world, const std::vector<MethodName>& methods, const Body& body) {
  std::map<std::pair<int, int>, shard::Groups> meshes;
  auto turn = static_cast<size_t>(world.size());
  for (const auto strategy : catalog::strategies_for(world.size())) {
    const auto policy = shard::policy_of(Trained::config_of(strategy), world.size());
    const std::pair shape{policy.replicate, policy.shard};
    if (!meshes.contains(shape)) meshes[shape] = shard::connect_groups(world, policy);
    auto groups = meshes[shape];
    groups.policy = policy;
    for (const auto method : full ? methods : std::vector{methods[turn++ % methods.size()]})
      body(groups, strategy, method);
  }
}

constexpr int64_t kSamples = 7;
constexpr uint64_t kSteps = 2;

nn::Batch share(const nn::Batch& all, const comm::World& world) {
  const auto mine = comm::slice_of(kSamples, world.size(), world.rank());
  return all.rows(mine.begin, mine.size);
}

// The same step in one process that holds everything.
const std::vector<at::Tensor>& weights_of_one_process(const std::string& model, MethodName method) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, MethodName>, std::vector<at::Tensor>> known;
  const std::lock_guard lock(mutex);
  auto& weights = known[{model, method}];
  if (weights.empty()) {
    auto world = comm::World::simulated(0, 1);
    Trained alone(shard::connect_groups(world, {}), Strategy::none, private_config(method), model);
    for (uint64_t s = 0; s < kSteps; ++s) alone.step.run(std::vector{alone.batch(kSamples, s)}, 8);
    weights = alone.whole(shard::Runtime::Part::weight);
  }
  return weights;
}

// Two steps; the noise of each, assembled from the shards of all ranks, is the one process's bit by bit.
void expect_steps_of_one_process(comm::World& world, Trained& ranks, const std::string& model, MethodName method,
                                 const std::string& what) {
  const privacy::Noise noise(privacy::seeded_key(21));
  for (uint64_t s = 0; s < kSteps; ++s) {
    const std::vector mine{share(ranks.batch(kSamples, s), world)};
    ranks.step.gradients(mine);
    auto expected = ranks.whole(shard::Runtime::Part::gradient);
    ranks.step.add_noise();
    const auto found = ranks.whole(shard::Runtime::Part::gradient);
    for (size_t w = 0; w < expected.size(); ++w) {
      noise.add(expected[w].view(-1), 0.5 * 0.3, s, static_cast<int64_t>(w), 0);
      EXPECT_TRUE(found[w].equal(expected[w])) << what << ", step " << s << ", weight " << w;
    }
    // What run() releases, as the optimizer gets it.
    ranks.optimizer->before_update([&] {
      const auto released = ranks.whole(shard::Runtime::Part::gradient);
      for (size_t w = 0; w < expected.size(); ++w)
        EXPECT_TRUE(released[w].equal(expected[w].to(at::kFloat))) << what << ", step " << s << ", weight " << w;
    });
    const auto record = ranks.step.run(mine, 8);
    EXPECT_EQ(record.samples.samples, kSamples);
    ranks.optimizer->before_update({});
  }
  const auto weights = ranks.whole(shard::Runtime::Part::weight);
  const auto& alone = weights_of_one_process(model, method);
  for (size_t w = 0; w < weights.size(); ++w)
    EXPECT_LT((weights[w] - alone[w]).norm().item<double>(), 1e-6 * (1 + alone[w].norm().item<double>()))
        << what << ", weight " << w;
}

TEST_P(Private, NoiseAndWeightsAreThoseOfOneProcess) {
  run(GetParam(), [](comm::World& world) {
    const std::vector methods{MethodName::bookkeeping, MethodName::ghost, MethodName::streaming};
    each_strategy(world, methods, [&](const shard::Groups& groups, Strategy strategy, MethodName method) {
      for (const std::string model : {"qwen2-nano", "llama-nano"}) {
        Trained ranks(groups, strategy, private_config(method), model);
        expect_steps_of_one_process(
            world, ranks, model, method,
            text(model, " ", to_string(method), " ", to_string(strategy), ", ", world.size(), " ranks"));
      }
    });
  });
}

// The divisor is a public constant: it is what the noisy sum is divided by, whatever number of samples came.
TEST(PrivateStep, DividesByThePublicConstant) {
  auto world = comm::World::simulated(0, 1);
  const auto groups = shard::connect_groups(world, {});
  for (const double divisor : {1.0, 50.0}) {
    Trained one(groups, Strategy::none, private_config(MethodName::bookkeeping));
    const std::vector batch{one.batch(3, 1)};
    const auto before = one.whole(shard::Runtime::Part::weight);
    one.step.gradients(batch);
    one.step.add_noise();
    const auto gradients = one.whole(shard::Runtime::Part::gradient);
    one.step.run(batch, divisor);
    const auto after = one.whole(shard::Runtime::Part::weight);
    for (size_t w = 0; w < after.size(); ++w)
      EXPECT_TRUE(at::allclose(after[w], before[w] - 0.1 / divisor * gradients[w].to(at::kFloat), 1e-5, 1e-6))
          << divisor;
  }
}

// Adaptive clipping: the gradient's noise is the larger one that pays for the count, and C moves after every step.
TEST(PrivateStep, AdaptiveNoiseHasItsShare) {
  auto world = comm::World::simulated(0, 1);
  auto dp = private_config(MethodName::bookkeeping);
  dp.clip.style = ClipStyle::adaptive;
  dp.clip.count_sigma = 0.3;
  Trained one(shard::connect_groups(world, {}), Strategy::none, dp);
  one.step.gradients(std::vector{one.batch(0, 1)});
  one.step.add_noise();
  double squares = 0, count = 0;
  for (const auto& noise : one.whole(shard::Runtime::Part::gradient)) {
    squares += noise.square().sum().item<double>();
    count += static_cast<double>(noise.numel());
  }
  const double sigma = 1 / std::sqrt(1 / (0.5 * 0.5) - 1 / (4 * 0.3 * 0.3));
  EXPECT_NEAR(std::sqrt(squares / count), sigma * 0.3, 0.02 * sigma * 0.3);
  const auto record = one.step.run(std::vector{one.batch(3, 1)}, 4);
  EXPECT_EQ(record.clip_norm, 0.3) << "of this step";
  EXPECT_NE(one.step.method().clipper()->clip_norm(), 0.3) << "of the next";
}

// Local batches of 3, 0, 1, ... samples, then none anywhere: nobody waits for ever, and noise comes all the same.
TEST_P(Private, UnequalAndEmptyBatches) {
  run(GetParam(), [](comm::World& world) {
    const std::vector methods{MethodName::automatic, MethodName::flash, MethodName::streaming};
    each_strategy(world, methods, [&](const shard::Groups& groups, Strategy strategy, MethodName method) {
      const auto what = text(to_string(method), " ", to_string(strategy), ", ", world.size(), " ranks");
      Trained ranks(groups, strategy, private_config(method));
      static constexpr int64_t kSizes[] = {3, 0, 1, 2};
      std::vector<nn::Batch> micro;
      for (const int turn : {0, 1}) micro.push_back(ranks.batch(3, 9).rows(0, kSizes[(world.rank() + turn) % 4]));
      EXPECT_GT(ranks.step.run(micro, 8).samples.samples, 0) << what;
      const auto before = ranks.whole(shard::Runtime::Part::weight);
      const auto record = ranks.step.run(std::vector{ranks.batch(1, 9).rows(0, 0)}, 8);
      EXPECT_EQ(record.samples.samples, 0) << what;
      EXPECT_TRUE(std::isnan(record.loss)) << what << ": the mean of no sample";
      const auto after = ranks.whole(shard::Runtime::Part::weight);
      const privacy::Noise noise(privacy::seeded_key(21));
      for (size_t w = 0; w < after.size(); ++w) {
        auto expected = at::zeros_like(before[w], at::kDouble);
        noise.add(expected.view(-1), 0.5 * 0.3, 1, static_cast<int64_t>(w), 0);
        EXPECT_TRUE(at::allclose(after[w], before[w] - 0.1 / 8 * expected.to(at::kFloat), 1e-5, 1e-7))
            << what << ", weight " << w;
      }
    });
  });
}

}  // namespace
}  // namespace shade::train
