// Model states: predicted before anything is allocated, and never more than is.
#include "shade/train/run/model_states.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>

#include "shade/base/log.h"
#include "shade/profile/memory.h"
#include "shade/train/step/slots.h"
#include "shade/train/step/step.h"
#include "tests/support/fault.h"
#include "tests/support/ranks.h"

namespace shade::train {
namespace {

struct Case {
  int ranks;
  shard::Strategy strategy;
  nn::DType dtype;
  bool lora = false;
};

models::ModelOptions options_of(const Case& c) {
  return {.task = models::Task::lm, .lora = c.lora ? std::optional(nn::LoraOptions{.rank = 2}) : std::nullopt};
}

struct Seen {
  ModelStates states;  // after the first half of a step
  Bytes peak;          // of all tensors
};

// By all ranks, which are threads here.
Seen allocated(const Case& c, const StatesPlan& plan) {
  Seen out;
  profile::TensorMemory::track();
  profile::TensorMemory::reset_peak();
  const auto before = profile::TensorMemory::breakdown();
  test::run_ranks(c.ranks, test::As::threads, [&](comm::World& world) {
    const auto model = models::make_model("llama-nano", {}, options_of(c));
    shard::Runtime runtime(model->parameters(), shard::connect_groups(world, shard::policy_of(plan.shard, c.ranks)),
                           plan.shard, {.compute = c.dtype});
    runtime.initialise(1);
    const auto optimizer = prepared_optimizer(*plan.optim, runtime);
    Step step(*model, runtime, *optimizer, optim::make_schedule({}));
    const auto batch = model->synthetic({.samples = 1, .seq_length = 4}, 1, at::kFloat);
    step.gradients({&batch, 1});
    runtime.shards();
    const auto& control = runtime.groups().control;
    control.barrier().wait();
    if (world.rank() == 0) {
      const auto now = profile::TensorMemory::breakdown();
      const auto grown = [&](MemoryKind kind) { return now.of(kind) - before.of(kind); };
      out.states = {.weights = grown(MemoryKind::parameters) + grown(MemoryKind::gathered),
                    .gradients = grown(MemoryKind::gradients),
                    .optimizer = grown(MemoryKind::optimizer)};
    }
    control.barrier().wait();
  });
  out.peak = profile::TensorMemory::peak() - before.total;
  return out;
}

TEST(ModelStates, AreWhatIsAllocated) {
  using enum shard::Strategy;
  for (const auto& c : {Case{1, none, nn::DType::fp32},
                        {1, none, nn::DType::bf16},
                        {1, none, nn::DType::fp64},
                        {1, none, nn::DType::bf16, true},
                        {2, ddp, nn::DType::bf16},
                        {2, zero2, nn::DType::fp32},
                        {2, zero3, nn::DType::fp32},
                        {2, zero3, nn::DType::bf16, true},
                        {4, hsdp, nn::DType::fp32}}) {
    for (const auto algorithm : {optim::Algorithm::adamw, optim::Algorithm::adambc, optim::Algorithm::sgd}) {
      StatesPlan plan{.compute = c.dtype, .optim = optim::OptimConfig{.optimizer = algorithm}, .ranks = c.ranks};
      plan.shard.shard = c.strategy;
      plan.local_ranks = c.ranks;
      const auto predicted = model_states(models::size_of("llama-nano", {}, options_of(c)), plan);
      const auto [seen, peak] = allocated(c, plan);
      const auto what = text(c.ranks, " ", to_string(c.strategy), " ", to_string(c.dtype), c.lora ? " lora" : "");
      EXPECT_LE(predicted.total(), peak) << what << ": what would fit was refused";
      EXPECT_GT(4 * predicted.total().count, peak.count) << what << ": too little to be of use";
      EXPECT_EQ(predicted.optimizer, seen.optimizer) << what;
      EXPECT_LE(predicted.gradients, seen.gradients) << what;
      if (c.strategy == none || c.strategy == ddp) {
        EXPECT_EQ(predicted.weights, seen.weights) << what;
        EXPECT_EQ(predicted.gradients, seen.gradients) << what;
      }
    }
  }
}

TEST(ModelStates, OffloadedOnesDontCount) {
  const models::ModelSize size{.parameters = 1000, .trainable = 1000};
  StatesPlan plan{.optim = optim::OptimConfig{}};
  EXPECT_EQ(model_states(size, plan).total(), Bytes{16'000});
  plan.optim->ema = 0.99;
  EXPECT_EQ(model_states(size, plan).optimizer, Bytes{12'000}) << "the moving average is fp32";
  plan.shard.offload = true;
  EXPECT_EQ(model_states(size, plan).total(), Bytes{0}) << "a mapped file holds them";
  plan.compute = nn::DType::bf16;
  EXPECT_EQ(model_states(size, plan).total(), Bytes{2'000}) << "what is computed with is in memory";
}

TEST(ModelStates, WhatExceedsTheMemoryIsRefusedWithTheFigures) {
  const models::ModelSize size{.parameters = int64_t{1} << 36, .trainable = int64_t{1} << 36};
  const auto states = model_states(size, {.shard = {}, .optim = optim::OptimConfig{}});
  EXPECT_EQ(test::fault([&] { require_memory(states, GiB(22)); }),
            "the model states need 1.00 TiB on this host (weights 256 GiB, gradients 256 GiB, optimizer 512 GiB), and "
            "22.0 GiB are available; use more hosts, shard more (--shard zero3), offload (--offload), train adapters "
            "alone (--lora-rank) or choose a smaller model");
  EXPECT_EQ(test::fault([&] { require_memory(states, GiB(1024)); }), "no error") << "to the byte";
  EXPECT_NE(test::fault([&] { require_memory(states); }), "no error") << "this machine";
  const models::ModelSize most{.parameters = std::numeric_limits<int64_t>::max(),
                               .trainable = std::numeric_limits<int64_t>::max()};
  EXPECT_NE(test::fault([&] {
              require_memory(model_states(most, {.shard = {}, .optim = optim::OptimConfig{}, .local_ranks = 4096}),
                             GiB(1 << 20));
            }),
            "no error");
}

// What the recipe llama3_8b_lora needs on a machine of 24 GB.
TEST(ModelStates, AnAdapterOfEightBillionFitsTwoRanksOf24GB) {
  models::ModelOptions options{.task = models::Task::lm, .lora = nn::LoraOptions{.rank = 16}};
  StatesPlan plan{.compute = nn::DType::bf16, .optim = optim::OptimConfig{}, .ranks = 2, .local_ranks = 2};
  plan.shard.shard = shard::Strategy::zero3;
  const auto states = model_states(models::size_of("llama3-8b", {}, options), plan);
  EXPECT_EQ(test::fault([&] { require_memory(states, Bytes{22'000'000'000}); }), "no error")
      << to_string(states.total());
  options.lora.reset();
  EXPECT_NE(
      test::fault([&] { require_memory(model_states(models::size_of("llama3-8b", {}, options), plan), GiB(24)); }),
      "no error")
      << "all of it with AdamW is 120 GiB";
}

}  // namespace
}  // namespace shade::train
