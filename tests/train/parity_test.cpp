// Every strategy against one process that holds the whole batch: gradients, and weights after ten updates.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <mutex>

#include "shade/models/registry.h"
#include "shade/optim/config.h"
#include "shade/train/step/step.h"
#include "tests/support/ranks.h"
#include "tests/train/distance.h"

namespace shade::train {
namespace {

using shard::Strategy;

constexpr int64_t kSamples = 12, kSteps = 10;
constexpr uint64_t kSeed = 5;

struct ModelCase {
  std::string name;
  models::Task task;
};
const std::vector<ModelCase> kModels{
    {"llama-nano", models::Task::classify}, {"qwen2-nano", models::Task::lm}, {"dit-nano", models::Task::denoise}};

std::unique_ptr<models::Model> make(const ModelCase& c, models::Checkpointing again) {
  models::SizeOverrides sizes;
  sizes.num_layers = 3;
  return models::make_model(c.name, sizes, {.task = c.task, .checkpointing = again});
}

nn::Batch batch_of(const models::Model& model, uint64_t seed) {
  auto batch = model.synthetic({.samples = kSamples, .seq_length = 7}, seed, at::kFloat);
  if (batch.mask_BT.defined()) {  // texts of unequal length
    const auto length = at::arange(kSamples).remainder(4).add(4);
    batch.mask_BT = (at::arange(7) < length.unsqueeze(1)).to(at::kLong);
    if (batch.labels.dim() == 2) batch.labels = batch.labels.masked_fill(batch.mask_BT == 0, -100);
  }
  return batch;
}

struct Expected {
  Tensors gradients;  // of the sum, first step
  Tensors weights;    // after kSteps updates
};

optim::OptimConfig optimizer_config() {
  optim::OptimConfig config;
  config.lr = 1e-3;
  config.weight_decay = 0.5;  // 10 steps on norms and biases would show
  return config;
}

// One process, nothing of shard/: weights bound whole, gradients from the default tap.
Expected reference(const ModelCase& c) {
  const auto model = make(c, models::Checkpointing::none);
  nn::bind_all(model->parameters(), at::kFloat, kSeed);
  nn::PlainGradients gradients;
  model->parameters().wiring.tap = &gradients;
  const auto optimizer = optim::make_optimizer(optimizer_config());
  Expected out;
  for (int64_t step = 0; step < kSteps; ++step) {
    gradients.clear();
    torch::autograd::backward({model->losses(batch_of(*model, static_cast<uint64_t>(step))).sum()}, {});
    std::vector<optim::Slot> slots;
    for (auto& weight : model->parameters().weights()) {
      if (step == 0) out.gradients.push_back(gradients.of(weight).clone());
      slots.push_back(
          {.name = weight.name(), .master = weight.value().view(-1), .gradient = gradients.of(weight).view(-1)});
      if (weight.name().ends_with("bias") || weight.name().find("norm") != std::string::npos)
        slots.back().without_decay = {{0, weight.numel()}};
    }
    optimizer->step(slots, 1e-3, 1.0 / kSamples);
  }
  for (const auto& weight : model->parameters().weights()) out.weights.push_back(weight.value().clone());
  return out;
}

const Expected& expected(const ModelCase& c) {
  static std::mutex mutex;
  static std::map<std::string, Expected> known;
  const std::lock_guard lock(mutex);
  auto& entry = known[c.name];
  if (entry.gradients.empty()) entry = reference(c);
  return entry;
}

struct Variant {
  shard::ShardConfig shard;
  int64_t micro_steps = 1;
  models::Checkpointing again = models::Checkpointing::none;
  std::string name() const {
    return text(to_string(shard.shard), " micro-steps ", micro_steps, " wrap ", to_string(shard.wrap), " prefetch ",
                to_string(shard.backward_prefetch), shard.forward_prefetch ? "" : " no forward prefetch",
                shard.reduce_once ? " reduce once" : "", shard.offload ? " offload" : "", " checkpointing ",
                to_string(again));
  }
};

struct Outcome {
  Tensors gradients, weights;
};

Outcome train(const ModelCase& c, const Variant& v, const shard::Groups& groups) {
  const auto model = make(c, v.again);
  shard::Runtime runtime(model->parameters(), groups, v.shard);
  runtime.initialise(kSeed);
  const auto optimizer = optim::make_optimizer(optimizer_config());
  Step step(*model, runtime, *optimizer, optim::make_schedule(optimizer_config()));
  const int world = groups.control.size(), rank = groups.control.rank();
  Outcome out;
  for (int64_t s = 0; s < kSteps; ++s) {
    const auto whole = batch_of(*model, static_cast<uint64_t>(s));
    const auto mine = comm::slice_of(kSamples, world, rank);
    std::vector<nn::Batch> micro;
    for (int m = 0; m < v.micro_steps; ++m) {
      const auto part = comm::slice_of(mine.size, static_cast<int>(v.micro_steps), m);
      micro.push_back(whole.rows(mine.begin + part.begin, part.size));
    }
    if (s == 0) {
      step.gradients(micro);
      for (const auto& weight : model->parameters().weights())
        out.gradients.push_back(runtime.whole(weight, shard::Runtime::Part::gradient));
    }
    step.run(micro, kSamples);
  }
  for (const auto& weight : model->parameters().weights()) out.weights.push_back(runtime.whole(weight));
  return out;
}

const bool full = std::getenv("SHADE_FULL_MATRIX") != nullptr;

// The product of all options; every fifth of them, which has each value of each option, unless all are asked for.
std::vector<Variant> variants(Strategy strategy) {
  std::vector<Variant> out;
  for (const int64_t micro_steps : {1, 3})
    for (const auto again : {models::Checkpointing::none, models::Checkpointing::block})
      for (const auto wrap : {shard::Wrap::module, shard::Wrap::size, shard::Wrap::none})
        for (const auto prefetch : {shard::Prefetch::pre, shard::Prefetch::post, shard::Prefetch::none}) {
          Variant v{.micro_steps = micro_steps, .again = again};
          v.shard.shard = strategy;
          v.shard.wrap = wrap;
          v.shard.min_num_params = 20'000;
          v.shard.backward_prefetch = prefetch;
          v.shard.forward_prefetch = prefetch != shard::Prefetch::none;
          v.shard.segment = KiB(64);  // several segments in a unit
          out.push_back(v);
        }
  if (!full) {
    std::vector<Variant> some;
    for (size_t i = 0; i < out.size(); i += 5) some.push_back(out[i]);
    out = some;
  }
  Variant kept = out.back();
  kept.micro_steps = 3;
  kept.shard.reduce_once = true;
  out.push_back(kept);
  Variant offloaded = out.front();
  offloaded.shard.offload = true;
  out.push_back(offloaded);
  Variant narrow = out.front();
  narrow.shard.in_flight = Bytes{0};  // nothing ahead, every reduction waited for
  out.push_back(narrow);
  return out;
}

class Parity : public testing::TestWithParam<int> {};

TEST_P(Parity, EveryStrategyEqualsOneProcess) {
  const int ranks = GetParam();
  for (const auto& c : kModels) expected(c);
  std::atomic<int> runs{0};
  test::run_ranks(ranks, test::As::threads, [&](comm::World& world) {
    std::map<std::pair<int, int>, shard::Groups> meshes;
    std::map<std::string, Tensors> sharded;  // weights of zero2, by the rest of the variant
    for (const auto strategy : catalog::strategies_for(ranks)) {
      shard::ShardConfig config;
      config.shard = strategy;
      const auto policy = shard::policy_of(config, ranks);
      const std::pair shape{policy.replicate, policy.shard};
      if (!meshes.contains(shape)) meshes[shape] = shard::connect_groups(world, policy);
      auto& groups = meshes[shape];
      groups.policy = policy;
      const auto all = variants(strategy);
      for (size_t i = 0; i < all.size(); ++i) {
        for (size_t m = 0; m < kModels.size(); ++m) {
          if (!full && (i + m) % kModels.size() != 0) continue;  // each variant with one of the models
          const auto& [v, c] = std::tie(all[i], kModels[m]);
          const auto found = train(c, v, groups);
          EXPECT_LT(distance(found.gradients, expected(c).gradients), 1e-6) << c.name << " " << v.name();
          EXPECT_LT(distance(found.weights, expected(c).weights), 1e-5) << c.name << " " << v.name();
          ++runs;
          auto key = v;
          key.shard.shard = Strategy::zero2;
          if (strategy == Strategy::zero2) sharded[c.name + key.name()] = found.weights;
          if (strategy == Strategy::zero3) {
            const auto& twin = sharded.at(c.name + key.name());
            for (size_t w = 0; w < twin.size(); ++w)
              EXPECT_TRUE(found.weights[w].equal(twin[w])) << c.name << " " << v.name();
          }
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  });
  std::printf("%d ranks: %d runs\n", ranks, runs.load() / ranks);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Parity, testing::ValuesIn(full ? std::vector{1, 2, 3, 4} : std::vector{1, 2, 3}));

}  // namespace
}  // namespace shade::train
