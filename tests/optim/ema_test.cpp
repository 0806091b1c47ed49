// The moving average of the weights.
#include "shade/optim/ema.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "shade/optim/config.h"
#include "tests/support/fault.h"

namespace shade::optim {
namespace {

constexpr double kDecay = 0.9;

// Steps of `elements` weights from `begin` on, with gradients that are functions of the element.
struct Shard {
  Shard(int64_t begin, int64_t elements, StateType type = StateType::fp32, double decay = kDecay)
      : optimizer(make_optimizer({.state_dtype = type, .ema = decay})),
        waves(at::arange(begin, begin + elements, at::kFloat)),
        slot{.name = "unit", .master = at::cos(waves), .gradient = at::empty(elements), .offset = begin} {
    optimizer->prepare({&slot, 1});
  }
  void step() {
    slot.gradient.copy_(at::sin(waves + static_cast<double>(optimizer->steps())));
    optimizer->step({&slot, 1}, 0.1);
  }
  at::Tensor average() const { return optimizer->state("unit", kAverage); }

  std::unique_ptr<Optimizer> optimizer;
  at::Tensor waves;
  Slot slot;
};

TEST(Ema, BeginsAsTheWeightsAndFollowsThem) {
  for (const auto type : {StateType::fp32, StateType::bf16}) {
    Shard run(0, 1001, type), plain(0, 1001, type, /*decay=*/0);
    EXPECT_TRUE(at::equal(run.average(), run.slot.master));
    auto expected = run.slot.master.to(at::kDouble);
    for (int i = 0; i < 5; ++i) {
      run.step();
      plain.step();
      expected = kDecay * expected + (1 - kDecay) * run.slot.master.to(at::kDouble);
    }
    EXPECT_EQ(run.average().scalar_type(), at::kFloat) << "whatever the type of the other states";
    EXPECT_LT((run.average() - expected).abs().max().item<double>(), 1e-6);
    EXPECT_GT((run.average() - run.slot.master).abs().max().item<double>(), 0.1);
    EXPECT_TRUE(at::equal(run.slot.master, plain.slot.master)) << "training doesn't notice it";
  }
}

TEST(Ema, IsTheSameForEveryCut) {
  Shard whole(0, 1001), left(0, 333), right(333, 668);
  for (int i = 0; i < 3; ++i)
    for (auto* run : {&whole, &left, &right}) run->step();
  EXPECT_TRUE(at::equal(whole.average(), at::cat({left.average(), right.average()})));
}

TEST(Ema, IsCountedAsState) {
  EXPECT_EQ(make_optimizer({.ema = 0.5})->state_names(), (std::vector<std::string>{"exp_avg", "exp_avg_sq", "ema"}));
  EXPECT_EQ(make_optimizer({.ema = 0.5})->state_bytes(10).count, 120);
  EXPECT_EQ(make_optimizer({.state_dtype = StateType::bf16, .ema = 0.5})->state_bytes(10).count, 80);
  EXPECT_FALSE(make_optimizer({})->keeps_average()) << "unless it is asked for";
  EXPECT_EQ(test::fault([] { make_optimizer({.ema = 1}); }), "ema is 1; expected at least 0 and less than 1");
}

TEST(Ema, AnExchangeTakenBackLeavesEveryBit) {
  const auto a = at::randn({100'003}), b = at::randn({100'003}), first = a.clone(), second = b.clone();
  exchange(a, b);
  EXPECT_TRUE(at::equal(a, second) && at::equal(b, first));
  exchange(a, b);
  EXPECT_TRUE(at::equal(a, first) && at::equal(b, second));
}

}  // namespace
}  // namespace shade::optim
