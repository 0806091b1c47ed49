#include "shade/optim/optimizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "shade/optim/adamw.h"

namespace shade::optim {
namespace {

at::Tensor rounded(const at::Tensor& x, uint64_t key, int64_t first = 0) {
  auto out = at::empty(x.sizes(), at::kBFloat16);
  round_stochastically(out, x, key, first);
  return out.to(at::kFloat);
}

TEST(StochasticRounding, IsRightOnAverageAndOffByLessThanOneUnit) {
  constexpr int64_t kElements = 200'000;
  for (const double value : {1.001, -1.001, 3e-9, -7.3e20, 1.0078}) {
    const auto x = at::full({kElements}, value, at::kFloat);
    const auto y = rounded(x, 17);
    const double unit = std::exp2(std::floor(std::log2(std::abs(value))) - 7);
    EXPECT_LT((y - x).abs().max().item<double>(), unit);
    // Standard deviation of the mean is at most unit / 2 / sqrt(n); five of them.
    EXPECT_NEAR(y.to(at::kDouble).mean().item<double>(), x[0].item<double>(), 2.5 * unit / std::sqrt(kElements));
    EXPECT_GT((y != y[0]).sum().item<int64_t>(), 0) << "both neighbours occur";
  }
}

TEST(StochasticRounding, LeavesWhatBf16HoldsAlone) {
  const auto inf = std::numeric_limits<float>::infinity();
  const auto x = at::tensor({0.0F, -0.0F, 1.0F, -2.5F, inf, -inf});
  EXPECT_TRUE(at::equal(rounded(x, 5), x));
  EXPECT_TRUE(rounded(at::tensor({NAN}), 5).isnan().all().item<bool>());
}

TEST(StochasticRounding, DiceFollowKeyAndIndexAlone) {
  const auto x = at::full({1000}, 1.003);
  const auto whole = rounded(x, 5, 70);
  EXPECT_TRUE(at::equal(rounded(x.narrow(0, 300, 500), 5, 370), whole.narrow(0, 300, 500)));
  EXPECT_FALSE(at::equal(rounded(x, 6, 70), whole));
  EXPECT_FALSE(at::equal(rounded(x, 5, 71), whole));
  EXPECT_NE(rounding_key("a", 0, 1), rounding_key("b", 0, 1));
  EXPECT_NE(rounding_key("a", 0, 1), rounding_key("a", 1, 1));
  EXPECT_NE(rounding_key("a", 0, 1), rounding_key("a", 0, 2));
}

TEST(StochasticRounding, IsTheSameOnEveryDevice) {
  at::manual_seed(4);
  const auto x = at::cat({at::randn(40'003), at::tensor({0.0F, -0.0F, INFINITY, -INFINITY})});
  for (const int64_t first : {int64_t{0}, int64_t{3}, (int64_t{1} << 40) + 1}) {
    auto ours = at::empty(x.sizes(), at::kBFloat16), anywhere = at::empty(x.sizes(), at::kBFloat16);
    round_stochastically(ours, x, ~uint64_t{7}, first);
    round_stochastically_anywhere(anywhere, x, ~uint64_t{7}, first);
    EXPECT_TRUE(at::equal(ours, anywhere)) << first;
  }
}

// One large gradient, then none: the second moment must fall as 0.999^t. Rounded to the nearest it would stay.
TEST(StochasticRounding, LetsTheSecondMomentFall) {
  constexpr int64_t kElements = 4096;
  Slot slot{.name = "w", .master = at::zeros(kElements), .gradient = at::ones(kElements)};
  const auto optimizer = make_adamw({.state_type = StateType::bf16});
  optimizer->step({&slot, 1}, 0);
  for (int t = 0; t < 500; ++t) {
    slot.gradient.zero_();
    optimizer->step({&slot, 1}, 0);
  }
  const auto mean = optimizer->state("w", "exp_avg_sq").to(at::kDouble).mean().item<double>();
  EXPECT_NEAR(mean / (0.001 * std::pow(0.999, 500)), 1, 0.01);
}

}  // namespace
}  // namespace shade::optim
