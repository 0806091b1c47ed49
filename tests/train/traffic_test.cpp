// Bytes on the wire and bytes of model state, counted and compared with theory: exactly.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "shade/models/registry.h"
#include "shade/optim/config.h"
#include "shade/profile/memory.h"
#include "shade/train/step/slots.h"
#include "shade/train/step/step.h"
#include "tests/support/ranks.h"

namespace shade::train {
namespace {

using shard::Strategy;

struct Case {
  Strategy strategy;
  nn::DType compute = nn::DType::fp32, reduce = nn::DType::fp32;
  int64_t micro_steps = 1;
  std::string name() const {
    return text(to_string(strategy), " compute ", to_string(compute), " reduce ", to_string(reduce), " micro-steps ",
                micro_steps);
  }
};
const std::vector<Case> kCases{{Strategy::ddp},
                               {Strategy::zero2},
                               {Strategy::zero3},
                               {Strategy::zero2, nn::DType::bf16, nn::DType::fp32, 3},
                               {Strategy::zero3, nn::DType::bf16, nn::DType::fp32, 3},
                               {Strategy::zero3, nn::DType::bf16, nn::DType::bf16},
                               {Strategy::ddp, nn::DType::bf16, nn::DType::fp32, 3},
                               {Strategy::hsdp, nn::DType::bf16}};

int64_t size_of(nn::DType type) { return type == nn::DType::bf16 ? 2 : 4; }

// What one rank sends in a step, from the number of parameters alone. P divides by the ranks. A table that is only
// looked up is not gathered for backward. A backend's own sums (NCCL's, the simulated one's) are of fp32, also on the
// wire; ours of bf16 cross as they are.
enum class Sums { ours, of_backend };
int64_t theory(const Case& c, const shard::Policy& policy, const nn::Parameters& model, Sums sums) {
  const int64_t s = policy.shard, r = policy.replicate, parameters = model.count();
  int64_t looked_up = 0;
  for (const auto& unit : model.units())
    for (const auto* weight : unit.weights) looked_up += unit.read_in_backward ? 0 : weight->numel();
  const int64_t gathered = parameters * size_of(c.compute) / s * (s - 1);
  const int64_t summed = sums == Sums::of_backend ? 4 : size_of(c.reduce);
  const int64_t scattered = parameters * summed / s * (s - 1);
  const int64_t gathers = policy.reshard ? 2 * c.micro_steps : 1;  // zero2: once, kept for all micro-steps
  const int64_t replicated = 2 * (parameters / s * summed / r * (r - 1));
  const int64_t spared = policy.reshard ? c.micro_steps * (looked_up * size_of(c.compute) / s * (s - 1)) : 0;
  return (s > 1 ? gathers * gathered - spared + c.micro_steps * scattered : 0) + replicated;
}

shard::ShardConfig config_of(const Case& c, int ranks) {
  shard::ShardConfig config;
  config.shard = c.strategy;
  config.replicate = ranks > 8 ? ranks / 8 : 2;  // hsdp: shards within a node of 8
  config.reduce_dtype = c.reduce;
  return config;
}

int64_t counted(comm::World& world) {
  int64_t sum = 0;
  for (const auto& record : world.traffic().drain())
    if (record.label.starts_with("gather ") || record.label.starts_with("reduce ")) sum += record.wire.count;
  return sum;
}

// A step on this rank; returns the bytes it sent.
int64_t step_bytes(comm::World& world, const Case& c, models::Model& model, at::Device device) {
  const auto config = config_of(c, world.size());
  shard::Runtime runtime(model.parameters(), shard::connect_groups(world, shard::policy_of(config, world.size())),
                         config, {.compute = c.compute, .device = device});
  if (!device.is_meta()) runtime.initialise(1);
  optim::OptimConfig optim;
  const auto optimizer = optim::make_optimizer(optim);
  Step step(model, runtime, *optimizer, optim::make_schedule(optim));
  const auto batch = model.synthetic({.samples = 1, .seq_length = 8}, 1, nn::scalar_type(c.compute)).to(device);
  const std::vector<nn::Batch> micro(static_cast<size_t>(c.micro_steps), batch);
  step.run(micro, static_cast<double>(c.micro_steps * world.size()));
  (void)counted(world);  // the second step is like all later ones
  step.run(micro, static_cast<double>(c.micro_steps * world.size()));
  return counted(world);
}

// Every unit divides by the ranks, and is too large for the algorithm that all_reduce has for small messages.
std::unique_ptr<models::Model> even_model() {
  return models::make_model("linear", {.hidden_dim = 512, .num_layers = 3}, {});
}

TEST(Traffic, RealRanksSendWhatTheorySays) {
  for (const auto& c : kCases) {
    for (const int ranks : {2, 4}) {
      if (c.strategy == Strategy::hsdp && ranks == 2) continue;
      test::run_ranks(ranks, test::As::threads, [&](comm::World& world) {
        const auto model = even_model();
        const auto policy = shard::policy_of(config_of(c, ranks), ranks);
        EXPECT_EQ(step_bytes(world, c, *model, at::kCPU), theory(c, policy, model->parameters(), Sums::ours))
            << c.name() << ", " << ranks << " ranks";
      });
    }
  }
}

TEST(Traffic, OfAThousandRanksIsTheSameFormula) {
  for (const auto& c : kCases) {
    for (const int ranks : {8, 64, 1024}) {
      auto world = comm::World::simulated(ranks / 2, ranks);
      const auto model = models::make_model("llama3-8b", {}, {.task = models::Task::lm});
      for (const auto& weight : model->parameters().weights()) ASSERT_EQ(weight.numel() % 1024, 0) << weight.name();
      ASSERT_FALSE(model->parameters().units().front().read_in_backward) << "the table of an untied model";
      const auto policy = shard::policy_of(config_of(c, ranks), ranks);
      EXPECT_EQ(step_bytes(world, c, *model, at::kMeta), theory(c, policy, model->parameters(), Sums::of_backend))
          << c.name() << ", " << ranks << " ranks";
    }
  }
}

// Parameters, gradients and moments: 16 bytes an element in fp32, divided by the shard axis.
TEST(ModelState, IsTheFormulaToTheByte) {
  profile::TensorMemory::track();
  for (const auto strategy : {Strategy::ddp, Strategy::zero2, Strategy::zero3, Strategy::hsdp}) {
    for (const auto compute : {nn::DType::fp32, nn::DType::bf16}) {
      const Case c{strategy, compute};
      for (const int rank : {0, 7}) {
        auto world = comm::World::simulated(rank, 8);
        const auto config = config_of(c, 8);
        const auto policy = shard::policy_of(config, 8);
        const auto model = models::make_model("llama-nano", {}, {});
        const auto groups = shard::connect_groups(world, policy);
        const auto before = profile::TensorMemory::current().count;
        shard::Runtime runtime(model->parameters(), groups, config, {.compute = compute});
        optim::OptimConfig optim;
        const auto optimizer = optim::make_optimizer(optim);
        optimizer->prepare(slots_of(runtime.shards()));
        const auto owned = runtime.layout().owned(policy.shard, rank % policy.shard, true);
        int64_t expected = owned * (4 + 4 + 8);
        if (policy.shard == 1 && compute == nn::DType::bf16) expected += 2 * owned;  // a copy to compute with
        EXPECT_EQ(profile::TensorMemory::current().count - before, expected)
            << to_string(strategy) << " " << to_string(compute) << " rank " << rank;
      }
    }
  }
}

}  // namespace
}  // namespace shade::train
