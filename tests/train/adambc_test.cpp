// DP-AdamBC in private steps: what is subtracted is the variance of the noise that the optimizer sees, for every style,
// unit and strategy; and a run goes on with it.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>

#include "shade/models/registry.h"
#include "shade/optim/config.h"
#include "shade/train/step/step.h"
#include "tests/io/scratch.h"
#include "tests/train/training.h"

namespace shade::train {
namespace {

using privacy::ClipStyle;
using shard::Strategy;

constexpr double kSigma = 0.5, kClipNorm = 0.3, kCountSigma = 0.4, kDivisor = 8, kLr = 0.01, kFloor = 0.1;
constexpr int64_t kSamples = 6;
constexpr int kSteps = 4;

optim::OptimConfig optimizer_config() {
  return {.optimizer = optim::Algorithm::adambc, .lr = kLr, .weight_decay = 0, .beta2 = 0.9, .noise_floor = kFloor};
}

privacy::DpConfig dp_of(ClipStyle style) {
  return {.dp = privacy::MethodName::automatic,
          .clip = {.style = style, .count_sigma = kCountSigma},
          .sigma = kSigma,
          .max_grad_norm = kClipNorm,
          .noise_seed = 21};
}

// The moments and the weights in fp64, from the noisy sums that a step releases.
struct Expected {
  std::vector<at::Tensor> weights, first, second;
  double noise = 0;

  explicit Expected(const std::vector<at::Tensor>& begin) {
    for (const auto& weight : begin) {
      weights.push_back(weight.to(at::kDouble).clone());
      first.push_back(at::zeros_like(weights.back()));
      second.push_back(at::zeros_like(weights.back()));
    }
  }

  // `deviation` is that of the noise on the sum.
  void step(const std::vector<at::Tensor>& sums, double deviation, int t) {
    noise = 0.9 * noise + 0.1 * std::pow(deviation / kDivisor, 2);
    const double start = 1 - std::pow(0.9, t), phi = noise / start;
    for (size_t w = 0; w < sums.size(); ++w) {
      const auto g = sums[w].to(at::kDouble) / kDivisor;
      first[w] = 0.9 * first[w] + 0.1 * g;
      second[w] = 0.9 * second[w] + 0.1 * g * g;
      const auto least = (second[w] / start - phi).clamp_min(kFloor * phi);
      weights[w] -= kLr * (first[w] / start) / least.sqrt();
    }
  }
};

struct Case {
  int ranks;
  Strategy strategy;
  ClipStyle style;
  int64_t records_of_a_user = 1;
};

void expect_corrected(const Case& c) {
  const auto what = text(c.ranks, " ", to_string(c.strategy), " ", to_string(c.style), " ", c.records_of_a_user);
  test::run_ranks(c.ranks, test::As::threads, [&](comm::World& world) {
    at::set_num_threads(1);
    shard::ShardConfig sharding;
    sharding.shard = c.strategy;
    const auto model = models::make_model("qwen2-nano", {}, {.task = models::Task::lm});
    shard::Runtime runtime(model->parameters(), shard::connect_groups(world, shard::policy_of(sharding, c.ranks)),
                           sharding);
    runtime.initialise(5);
    const auto optimizer = optim::make_optimizer(optimizer_config());
    Step step(*model, runtime, *optimizer, optim::make_schedule(optimizer_config()),
              step_options(dp_of(c.style), {.rehearsal = true}));
    const auto whole = [&](shard::Runtime::Part part) {
      std::vector<at::Tensor> out;
      for (const auto& weight : model->parameters().weights()) out.push_back(runtime.whole(weight, part));
      return out;
    };
    Expected expected(whole(shard::Runtime::Part::weight));
    for (int t = 1; t <= kSteps; ++t) {
      auto all = model->synthetic({.samples = kSamples * c.records_of_a_user, .seq_length = 5},
                                  static_cast<uint64_t>(t), at::kFloat);
      all.rows_per_sample = c.records_of_a_user;
      const auto mine = comm::slice_of(kSamples, world.size(), world.rank());
      const std::vector batch{all.rows(mine.begin, mine.size)};
      step.gradients(batch);
      step.add_noise();
      const auto sums = whole(shard::Runtime::Part::gradient);
      const double clip_norm = step.run(batch, kDivisor).clip_norm;
      const double sigma = c.style == ClipStyle::adaptive
                               ? 1 / std::sqrt(1 / (kSigma * kSigma) - 1 / (4 * kCountSigma * kCountSigma))
                               : kSigma;
      expected.step(sums, sigma * clip_norm, t);
    }
    const auto found = whole(shard::Runtime::Part::weight);
    double moved = 0;
    for (size_t w = 0; w < found.size(); ++w) {
      EXPECT_LT((found[w] - expected.weights[w]).abs().max().item<double>(), 2e-5) << what << ", weight " << w;
      moved = std::max(moved, expected.first[w].abs().max().item<double>());
    }
    EXPECT_GT(moved, 0) << what;
    EXPECT_NEAR(*optimizer->noise_variance(), expected.noise / (1 - std::pow(0.9, kSteps)), 1e-9) << what;
  });
}

TEST(AdamBc, SubtractsTheNoiseOfEveryStyleUnitAndStrategy) {
  for (const auto style :
       {ClipStyle::flat, ClipStyle::per_layer, ClipStyle::group, ClipStyle::automatic, ClipStyle::adaptive})
    expect_corrected({1, Strategy::none, style});
  expect_corrected({1, Strategy::none, ClipStyle::flat, 2});
  for (const auto strategy : {Strategy::ddp, Strategy::zero2, Strategy::zero3})
    expect_corrected({2, strategy, ClipStyle::per_layer});
  expect_corrected({2, Strategy::zero3, ClipStyle::adaptive, 2});
}

Words recipe(const Words& more = {}) {
  Words out{{"model.task", "lm"},          {"train.steps", "5"},    {"train.batch_size", "8"},
            {"train.seq_length", "12"},    {"train.records", "40"}, {"train.micro_batch", "4"},
            {"train.save_every", "1"},     {"optim.lr", "1e-3"},    {"optim.optimizer", "adambc"},
            {"dp.clip_style", "adaptive"}, {"dp.clip_rate", "0.5"}, {"dp.sigma", "0.7"},
            {"dp.noise_seed", "3"},        {"dp.delta", "1e-3"}};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

// Adaptive clipping changes the noise from step to step, so a part of it is saved.
TEST(AdamBc, ContinuesToTheBit) {
  for (const auto& [ranks, shard] : {std::pair(1, "none"), {2, "zero3"}}) {
    const io::Scratch runs;
    const auto words = recipe({{"shard.shard", shard}});
    const auto whole = train_in(runs.path() / "whole", ranks, words);
    EXPECT_EQ(train_in(runs.path() / "parts", ranks, words, [](int64_t made) { return made == 2; }).result.steps, 3);
    const auto parts = train_in(runs.path() / "parts", ranks, words);
    EXPECT_TRUE(equal(parts, whole)) << ranks;
    const auto adamw =
        train_in(runs.path() / "adamw", ranks, recipe({{"shard.shard", shard}, {"optim.optimizer", "adamw"}}));
    EXPECT_FALSE(equal(adamw, whole)) << ranks;
  }
}

TEST(AdamBc, IsRefusedWithoutNoise) {
  const io::Scratch runs;
  EXPECT_EQ(refused(runs.path() / "run", {{"model.task", "lm"}, {"optim.optimizer", "adambc"}}),
            "adambc corrects adamw for the noise of a private run, and this run is not private; choose adamw "
            "(--optimizer adamw), or train privately (--dp auto)");
}

}  // namespace
}  // namespace shade::train
