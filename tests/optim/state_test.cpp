// What an optimizer keeps: how much, where, and that a run goes on from it.
#include <gtest/gtest.h>

#include "shade/base/error.h"
#include "shade/profile/memory.h"
#include "tests/optim/cases.h"

namespace shade::optim {
namespace {

using profile::TensorMemory;

class OptimizerState : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, OptimizerState, testing::ValuesIn(all_cases()), name_of);

Slot slot_of(int64_t elements, const at::TensorOptions& options = {}) {
  return {.name = "unit", .master = at::ones(elements, options), .gradient = at::ones(elements, options)};
}

TEST_P(OptimizerState, IsPredictedToTheByte) {
  TensorMemory::track();
  for (const auto type : {StateType::fp32, StateType::bf16}) {
    const auto slot = slot_of(100'003);
    const auto optimizer = GetParam().make(type);
    const auto before = TensorMemory::current();
    optimizer->prepare({&slot, 1});
    EXPECT_EQ(TensorMemory::current() - before, optimizer->state_bytes(100'003));
    EXPECT_EQ(optimizer->state_bytes(), optimizer->state_bytes(100'003));
    optimizer->step({&slot, 1}, 0.1, 0.5);
    EXPECT_EQ(TensorMemory::current() - before, optimizer->state_bytes(100'003)) << "a step keeps nothing";
  }
  EXPECT_EQ(make_adamw({})->state_bytes(1000).count, 8000);
  EXPECT_EQ(make_adamw({.state_type = StateType::bf16})->state_bytes(1000).count, 4000);
  EXPECT_EQ(make_sgd({.momentum = 0.5})->state_bytes(1000).count, 4000);
  EXPECT_EQ(make_sgd({})->state_bytes(1000).count, 0);
}

TEST_P(OptimizerState, AStepTakesNoMemoryOfTheShardsSize) {
  TensorMemory::track();
  for (const auto type : {StateType::fp32, StateType::bf16}) {
    const auto slot = slot_of(4 << 20);
    const auto optimizer = GetParam().make(type);
    optimizer->prepare({&slot, 1});
    const auto before = TensorMemory::current();
    TensorMemory::reset_peak();
    optimizer->step({&slot, 1}, 0.1, 0.5);
    const auto fp32 = GetParam().name == "adambc" ? KiB(256) : KiB(4);  // of 16 MiB
    EXPECT_LE((TensorMemory::peak() - before).count, (type == StateType::fp32 ? fp32 : MiB(3)).count)
        << to_string(type);
  }
}

TEST_P(OptimizerState, GoesOnFromACopy) {
  for (const auto type : {StateType::fp32, StateType::bf16}) {
    at::manual_seed(5);
    auto ours = slot_of(1001);
    const auto first = GetParam().make(type);
    const auto train = [](Optimizer& optimizer, Slot& slot, uint64_t seed) {
      at::manual_seed(seed);
      slot.gradient = at::randn(slot.master.numel());
      optimizer.step({&slot, 1}, 0.01);
    };
    train(*first, ours, 1);
    train(*first, ours, 2);
    auto theirs = slot_of(1001);
    theirs.master.copy_(ours.master);
    const auto second = GetParam().make(type);
    second->prepare({&theirs, 1});
    for (const auto& name : first->state_names()) second->state("unit", name).copy_(first->state("unit", name));
    second->set_steps(first->steps());
    train(*first, ours, 3);
    train(*second, theirs, 3);
    EXPECT_TRUE(at::equal(ours.master, theirs.master));
    for (const auto& name : first->state_names())
      EXPECT_TRUE(at::equal(first->state("unit", name), second->state("unit", name))) << name;
  }
}

TEST(Allocation, IsTheCallers) {
  const std::vector<Slot> slots{{.name = "a", .master = at::ones(70), .gradient = at::ones(70)},
                                {.name = "b", .master = at::ones(0), .gradient = at::ones(0)}};
  std::vector<std::string> names;
  auto file = at::zeros(200);  // stands for a mapping
  int64_t used = 0;
  const auto optimizer = make_adamw({});
  optimizer->prepare(slots, [&](const std::string& name, int64_t elements, const at::TensorOptions& options) {
    EXPECT_EQ(options.dtype(), at::kFloat);
    names.push_back(name);
    used += elements;
    return file.narrow(0, used - elements, elements);
  });
  EXPECT_EQ(names, (std::vector<std::string>{"a/exp_avg", "a/exp_avg_sq", "b/exp_avg", "b/exp_avg_sq"}));
  optimizer->step(slots, 0.1);
  EXPECT_TRUE(at::allclose(file.narrow(0, 0, 70), at::full(70, 0.1)));
  EXPECT_TRUE(at::allclose(file.narrow(0, 70, 70), at::full(70, 0.001)));
  EXPECT_EQ(file.narrow(0, 140, 60).abs().sum().item<double>(), 0);
  EXPECT_THROW(optimizer->state("a", "momentum"), Error);
  EXPECT_THROW(optimizer->state("c", "exp_avg"), Error);

  const auto wrong = [](const std::string&, int64_t elements, const at::TensorOptions& options) {
    return at::zeros(elements + 1, options);
  };
  EXPECT_THROW(make_adamw({})->prepare(slots, wrong), Error);
  EXPECT_THROW(make_adamw({})->prepare(std::vector{slots[0], slots[0]}), Error) << "two of one name";
}

TEST_P(OptimizerState, OnMetaItIsOnlyCounted) {
  const auto slot = slot_of(int64_t{8} << 30, at::kMeta);
  const auto optimizer = GetParam().make(StateType::fp32);
  optimizer->step({&slot, 1}, 0.1, 0.5);
  EXPECT_EQ(optimizer->state_bytes(), optimizer->state_bytes(int64_t{8} << 30));
  EXPECT_EQ(optimizer->steps(), 1);
}

}  // namespace
}  // namespace shade::optim
