// What is AdamBC's alone: the noise that it subtracts.
#include "shade/optim/adambc.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace shade::optim {
namespace {

constexpr int64_t kElements = 301;

// Of each step, before it is scaled: as adaptive clipping changes it.
constexpr double kNoise[] = {3, 2, 2.5, 0.5, 1, 4};
constexpr double kScale = 0.25;

Slot slot_of(uint64_t seed) {
  at::manual_seed(seed);
  return {.name = "unit", .master = at::randn(kElements)};
}

void make_steps(Optimizer& optimizer, Slot& slot, size_t begin, size_t end) {
  for (auto t = begin; t < end; ++t) {
    at::manual_seed(100 + t);
    slot.gradient = at::randn(kElements) * (kNoise[t] + 1);
    optimizer.step({&slot, 1}, 0.01, kScale, kNoise[t]);
  }
}

TEST(AdamBc, SubtractsWhatTheNoiseAddedToTheSecondMoment) {
  constexpr double kShare = 0.1;
  auto slot = slot_of(1);
  auto w = slot.master.to(at::kDouble);
  auto m = at::zeros(kElements, at::kDouble), v = at::zeros(kElements, at::kDouble);
  double noise = 0;  // the part of v that is noise
  const auto optimizer = make_adambc({.beta2 = 0.9, .weight_decay = 0.1}, kShare);
  int64_t at_floor = 0;
  for (size_t t = 0; t < std::size(kNoise); ++t) {
    make_steps(*optimizer, slot, t, t + 1);
    at::manual_seed(100 + t);
    const auto g = (at::randn(kElements) * (kNoise[t] + 1)).to(at::kDouble) * kScale;
    m = 0.9 * m + 0.1 * g;
    v = 0.9 * v + 0.1 * g * g;
    noise = 0.9 * noise + 0.1 * std::pow(kNoise[t] * kScale, 2);
    const double n = static_cast<double>(t) + 1, start = 1 - std::pow(0.9, n), phi = noise / start;
    EXPECT_NEAR(optimizer->noise_variance().value(), phi, 1e-14);
    const auto second = v / start - phi;
    at_floor += (second < kShare * phi).sum().item<int64_t>();
    w = w * (1 - 0.01 * 0.1) - 0.01 * (m / start) / second.clamp_min(kShare * phi).sqrt();
    EXPECT_LT((slot.master - w).abs().max().item<double>(), 1e-6) << t;
  }
  EXPECT_GT(at_floor, 50);
  EXPECT_LT(at_floor, 6 * kElements - 50);
}

TEST(AdamBc, GoesOnWithTheNoiseOfEarlierSteps) {
  const auto copied = [](const Slot& slot, const Optimizer& from, Optimizer& to) {
    to.prepare({&slot, 1});
    for (const auto& name : from.state_names()) to.state("unit", name).copy_(from.state("unit", name));
    to.set_steps(from.steps());
  };
  auto whole = slot_of(2), parts = slot_of(2);
  const auto first = make_adambc({}), through = make_adambc({});
  make_steps(*through, whole, 0, 6);
  make_steps(*first, parts, 0, 3);
  auto forgetful = parts;
  forgetful.master = parts.master.clone();
  const auto second = make_adambc({}), other = make_adambc({});
  copied(parts, *first, *second);
  second->set_noise_variance(first->noise_variance().value());
  make_steps(*second, parts, 3, 6);
  EXPECT_TRUE(at::equal(parts.master, whole.master));
  EXPECT_EQ(second->noise_variance(), through->noise_variance());
  copied(forgetful, *first, *other);
  make_steps(*other, forgetful, 3, 6);
  EXPECT_FALSE(at::equal(forgetful.master, whole.master)) << "the noise changed from step to step";
}

// So it needs no more than Adam's state, unless the noise changes.
TEST(AdamBc, KnowsSteadyNoiseFromOneStep) {
  const auto optimizer = make_adambc({});
  auto slot = slot_of(3);
  EXPECT_FALSE(optimizer->noise_variance());
  optimizer->prepare({&slot, 1});
  optimizer->set_steps(17);
  for (int t = 0; t < 3; ++t) {
    slot.gradient = at::randn(kElements);
    optimizer->step({&slot, 1}, 0.01, 0.5, 3);
    EXPECT_EQ(optimizer->noise_variance(), 2.25);
  }
}

TEST(AdamBc, WithoutNoiseIsAdamW) {
  auto ours = slot_of(4), theirs = slot_of(4);
  const auto corrected = make_adambc({.eps = 1e-12}), plain = make_adamw({.eps = 1e-12});
  for (int t = 0; t < 5; ++t) {
    ours.gradient = at::randn(kElements);
    theirs.gradient = ours.gradient.clone();
    corrected->step({&ours, 1}, 0.01, 0.5);
    plain->step({&theirs, 1}, 0.01, 0.5);
  }
  EXPECT_LT((ours.master - theirs.master).abs().max().item<double>(), 1e-6);
  EXPECT_FALSE(plain->noise_variance());
}

}  // namespace
}  // namespace shade::optim
