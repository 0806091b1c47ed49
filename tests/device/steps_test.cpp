// Steps on the emulated device against the same steps on the CPU: every clipping method, strategy and dtype, with
// checkpointing, accumulation, adapters and offload. An unordered access, a host's touch, a CPU tensor on the way or a
// pageable copy that pretends to be asynchronous ends the test.
//
// SHADE_FULL_MATRIX: the whole product. Otherwise each method, strategy and dtype with the next of models and variants.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "shade/models/registry.h"
#include "shade/optim/config.h"
#include "shade/train/step/step.h"
#include "tests/support/device/device.h"
#include "tests/support/ranks.h"
#include "tests/train/distance.h"

namespace shade::train {
namespace {

using privacy::MethodName;
using shard::Strategy;

const bool full = std::getenv("SHADE_FULL_MATRIX") != nullptr;
constexpr int64_t kSamples = 8, kPositions = 7, kSteps = 2;

struct ModelCase {
  std::string name;
  models::Task task;
};
const std::vector<ModelCase> kModels{
    {"llama-nano", models::Task::classify}, {"qwen2-nano", models::Task::lm}, {"dit-nano", models::Task::denoise}};

enum class Variant { plain, accumulated, checkpointed, adapters, offloaded };
constexpr std::array kVariants{Variant::plain, Variant::accumulated, Variant::checkpointed, Variant::adapters,
                               Variant::offloaded};

struct Case {
  ModelCase model;
  MethodName method;
  Strategy strategy;
  nn::DType dtype;
  Variant variant;

  std::string name() const {
    static constexpr const char* kWords[] = {"plain", "accumulated", "checkpointed", "adapters", "offloaded"};
    return text(model.name, " ", to_string(method), " ", to_string(strategy), " ", to_string(dtype), " ",
                kWords[static_cast<size_t>(variant)]);
  }
};

std::vector<Case> cases(int ranks) {
  auto methods = catalog::private_methods();
  methods.push_back(MethodName::none);
  std::vector<Case> out;
  size_t turn = 0;
  for (const auto strategy : catalog::strategies_for(ranks))
    for (const auto method : methods)
      for (const auto dtype : {nn::DType::fp32, nn::DType::bf16}) {
        ++turn;
        for (size_t i = 0; i < kVariants.size() * kModels.size(); ++i) {
          const Case one{kModels[i % 3], method, strategy, dtype, kVariants[i % 5]};
          if (one.variant == Variant::adapters && one.model.task == models::Task::denoise) continue;
          if (full || i == turn % 15) out.push_back(one);
        }
      }
  return out;
}

struct Outcome {
  Tensors gradients, noised, weights;  // on the CPU
};

Outcome run(const Case& c, const shard::Groups& groups, at::Device device) {
  models::SizeOverrides sizes;
  sizes.num_layers = 2;
  models::ModelOptions options{.task = c.model.task};
  if (c.variant == Variant::checkpointed) options.checkpointing = models::Checkpointing::block;
  if (c.variant == Variant::adapters) options.lora = nn::LoraOptions{.rank = 3};
  const auto model = models::make_model(c.model.name, sizes, options);

  shard::ShardConfig config;
  config.shard = c.strategy;
  config.offload = c.variant == Variant::offloaded;
  shard::Runtime runtime(model->parameters(), groups, config, {.compute = c.dtype, .device = device});
  runtime.initialise(5);
  optim::OptimConfig sgd;  // Adam would turn the rounding of small gradients into whole steps
  sgd.optimizer = optim::Algorithm::sgd;
  sgd.lr = 0.1;
  const auto optimizer = optim::make_optimizer(sgd);
  Step step(*model, runtime, *optimizer, optim::make_schedule(sgd),
            step_options({.dp = c.method, .sigma = 0.5, .max_grad_norm = 0.3, .noise_seed = 21},
                         {.micro_shapes = kSamples, .rehearsal = true}));

  const int64_t micro_steps = c.variant == Variant::accumulated ? 3 : 1;
  Outcome out;
  const auto collect = [&](Tensors& into, shard::Runtime::Part part) {
    for (const auto& weight : model->parameters().weights())
      if (part == shard::Runtime::Part::weight || weight.trainable()) into.push_back(runtime.whole(weight, part).cpu());
  };
  for (int64_t s = 0; s < kSteps; ++s) {
    const auto whole = model->synthetic({.samples = kSamples, .seq_length = kPositions}, static_cast<uint64_t>(s),
                                        nn::scalar_type(c.dtype));
    const auto mine = comm::slice_of(kSamples, groups.control.size(), groups.control.rank());
    std::vector<nn::Batch> micro;
    for (int m = 0; m < micro_steps; ++m) {
      const auto part = comm::slice_of(mine.size, static_cast<int>(micro_steps), m);
      micro.push_back(whole.rows(mine.begin + part.begin, part.size).to(device));
    }
    if (s == 0) {
      step.gradients(micro);
      collect(out.gradients, shard::Runtime::Part::gradient);
      if (step.is_private()) {  // by itself: nothing else waits for the copies of the sums
        step.add_noise();
        collect(out.noised, shard::Runtime::Part::gradient);
      }
    }
    step.run(micro, kSamples);
  }
  collect(out.weights, shard::Runtime::Part::weight);
  return out;
}

using Outcomes = std::map<std::string, Outcome>;

// Rank 0's, of all cases.
Outcomes run_all(int ranks, comm::BackendKind backend) {
  Outcomes out;
  test::run_ranks(ranks, test::As::threads,
                  [&](comm::World& world) {
                    std::map<std::pair<int, int>, shard::Groups> meshes;
                    for (const auto& c : cases(ranks)) {
                      shard::ShardConfig config;
                      config.shard = c.strategy;
                      const auto policy = shard::policy_of(config, ranks);
                      const std::pair shape{policy.replicate, policy.shard};
                      if (!meshes.contains(shape)) meshes[shape] = shard::connect_groups(world, policy);
                      auto groups = meshes[shape];
                      groups.policy = policy;
                      try {
                        auto found = run(c, groups, world.device());
                        if (world.rank() == 0) out[c.name()] = std::move(found);
                      } catch (const std::exception& fault) {
                        throw Error(text(c.name(), ": ", fault.what()));
                      }
                    }
                  },
                  {.backend = backend});
  return out;
}

class DeviceSteps : public testing::TestWithParam<int> {};
// Four ranks take two thirds of the time.
INSTANTIATE_TEST_SUITE_P(Ranks, DeviceSteps, testing::ValuesIn(full ? std::vector{1, 2, 4} : std::vector{1, 2}));

TEST_P(DeviceSteps, AreTheCpus) {
  const int ranks = GetParam();
  const auto wanted = run_all(ranks, comm::BackendKind::gloo);
  ASSERT_FALSE(testing::Test::HasFailure());
  for (c10::DeviceIndex device = 0; device < ranks; ++device) test::device::reset_counters(device);
  const test::device::RefusePageable refuse;
  const auto found = run_all(ranks, comm::BackendKind::nccl);
  ASSERT_FALSE(testing::Test::HasFailure());
  std::map<std::string, std::pair<double, double>> furthest;  // by dtype: gradients, weights
  for (const auto& c : cases(ranks)) {
    const auto &here = found.at(c.name()), &there = wanted.at(c.name());
    const auto gradients = distance(here.gradients, there.gradients), weights = distance(here.weights, there.weights);
    // Gram norms have a bound on a CPU, and an estimate on a device: samples are clipped by up to 2e-5 of it more.
    const auto within = c.dtype == nn::DType::fp32 ? (there.noised.empty() ? 1e-6 : 3e-5) : 1e-2;
    EXPECT_LT(gradients, within) << c.name() << ", gradients";
    if (!there.noised.empty()) EXPECT_LT(distance(here.noised, there.noised), within) << c.name() << ", with noise";
    EXPECT_LT(weights, within) << c.name() << ", weights";
    auto& most = furthest[std::string(to_string(c.dtype))];
    most = {std::max(most.first, gradients), std::max(most.second, weights)};
  }
  for (const auto& [dtype, most] : furthest)
    std::printf("%d ranks, %s: gradients differ by %.2g of their norm at most, weights by %.2g\n", ranks, dtype.c_str(),
                most.first, most.second);
  for (c10::DeviceIndex device = 0; device < ranks; ++device) {
    const auto asked = test::device::counters(device);
    EXPECT_GT(asked.launches, 1000) << "device " << int{device};
    EXPECT_EQ(asked.collectives > 0, ranks > 1) << "device " << int{device};
    EXPECT_EQ(asked.groups_left_open, 0) << "device " << int{device};
  }
}

}  // namespace
}  // namespace shade::train
