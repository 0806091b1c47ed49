#include "shade/nn/losses.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "shade/nn/gradients.h"

namespace shade::nn {
namespace {

TEST(LmLoss, SlicesOfTheVocabularyChangeNothing) {
  Parameters parameters;
  parameters.begin_unit("head");
  const auto& weight = parameters.add("w", {300, 6}, Init::normal(1));
  bind_all(parameters, at::kDouble, 1);
  const auto start = at::randn({2, 5, 6}, at::kDouble);
  const auto labels = at::tensor({1, -100, 299, 4, -100, 63, 64, 0, 128, -100}, at::kLong).view({2, 5});
  for (const bool mean : {true, false}) {
    const auto leaf = weight.value().clone().set_requires_grad(true);
    const auto reference = start.clone().set_requires_grad(true);
    auto per_token =
        at::cross_entropy_loss(at::linear(reference, leaf).transpose(1, 2), labels, {}, at::Reduction::None);
    auto expected = per_token.sum(1);
    if (mean) expected = expected / (labels != -100).sum(1);
    const auto g = at::tensor({0.7, -1.3}, at::kDouble);
    torch::autograd::backward({expected}, {g});
    for (const int64_t slice_bytes :
         {int64_t{1}, int64_t{4 * 10 * 128}, int64_t{1} << 30}) {  // 64, 128 and all rows at once
      PlainGradients gradients;
      parameters.wiring.tap = &gradients;
      const auto h = start.clone().set_requires_grad(true);
      const auto losses = lm_losses(h, weight, parameters.wiring, labels, {.mean = mean, .slice_bytes = slice_bytes});
      EXPECT_TRUE(at::allclose(losses, expected, 1e-12, 1e-12));
      torch::autograd::backward({losses}, {g});
      EXPECT_TRUE(at::allclose(h.grad(), reference.grad(), 1e-11, 1e-12));
      EXPECT_TRUE(at::allclose(gradients.of(weight), leaf.grad(), 1e-11, 1e-12));
    }
  }
}

double relative_error(const at::Tensor& found, const at::Tensor& expected) {
  return ((found.to(at::kDouble) - expected).norm() / expected.norm()).item<double>();
}

// A training step's micro-batch decides the number of slices, and must not decide how far a gradient is off.
TEST(LmLoss, RoundingDoesNotGrowWithTheNumberOfSlices) {
  constexpr int64_t kRows = 64 * 64;
  Parameters parameters;
  parameters.begin_unit("head");
  const auto& weight = parameters.add("w", {kRows, 32}, Init::normal(0.3));
  bind_all(parameters, at::kBFloat16, 1);
  at::manual_seed(1);
  const auto start = at::randn({4, 8, 32}).to(at::kBFloat16);
  const auto labels = at::randint(kRows, {4, 8}, at::kLong);

  const auto leaf = weight.value().to(at::kDouble).set_requires_grad(true);
  const auto exact = start.to(at::kDouble).set_requires_grad(true);
  at::cross_entropy_loss(at::linear(exact, leaf).transpose(1, 2), labels, {}, at::Reduction::Sum).backward();

  struct Errors {
    double input, weight;
  };
  const auto errors = [&](int64_t slice_bytes) -> Errors {
    PlainGradients gradients;
    parameters.wiring.tap = &gradients;
    const auto h = start.clone().set_requires_grad(true);
    lm_losses(h, weight, parameters.wiring, labels, {.mean = false, .slice_bytes = slice_bytes}).sum().backward();
    EXPECT_EQ(h.grad().scalar_type(), at::kBFloat16);
    return {relative_error(h.grad(), exact.grad()), relative_error(gradients.of(weight), leaf.grad())};
  };
  const auto one = errors(int64_t{1} << 30), many = errors(1);  // all rows at once; 64 slices
  EXPECT_LT(one.input, 0.01);
  EXPECT_LT(many.input, 1.1 * one.input);
  EXPECT_LT(many.weight, 1.1 * one.weight);
}

// Logits so far apart that fp32 has no normal number for the smaller share. fp64 has, and keeps it.
TEST(LmLoss, SharesFarBelowOneAreNothingInFp32AndThemselvesInFp64) {
  for (const auto type : {at::kFloat, at::kDouble}) {
    Parameters parameters;
    parameters.begin_unit("head");
    auto& weight = parameters.add("w", {2, 2}, Init::normal(1));
    weight.bind(at::tensor({100.0, 0.0, 0.0, 1.0}, at::kDouble).view({2, 2}).to(type));
    PlainGradients gradients;
    parameters.wiring.tap = &gradients;
    for (const int64_t label : {0, 1}) {
      gradients.clear();
      const auto h = at::tensor({1.0, 0.0}, type).view({1, 1, 2}).set_requires_grad(true);
      const auto losses =
          lm_losses(h, weight, parameters.wiring, at::full({1, 1}, label, at::kLong), {});  // logits 100 and 0
      losses.sum().backward();
      EXPECT_EQ(losses.item<double>(), label == 0 ? 0 : 100);
      const double share = gradients.of(weight)[1][0].item<double>() + (label == 1 ? 1 : 0);
      EXPECT_NEAR(share, label == 0 ? std::exp(-100.0) : 0, type == at::kDouble ? 1e-54 : 1e-34);
      const double second = h.grad()[0][0][1].item<double>();
      EXPECT_NEAR(second, label == 0 ? std::exp(-100.0) : -1, type == at::kDouble && label == 0 ? 1e-54 : 1e-34);
    }
    const auto nan = at::full({1, 1, 2}, NAN, type);
    EXPECT_TRUE(std::isnan(lm_losses(nan, weight, parameters.wiring, at::zeros({1, 1}, at::kLong), {}).item<double>()));
  }
}

// A vocabulary this large is passed over a few positions at a time.
struct LargeHead {
  static constexpr int64_t kRows = 40000, kWidth = 4, kPositions = 13;
  LargeHead() {
    parameters.begin_unit("head");
    weight = &parameters.add("w", {kRows, kWidth}, Init::normal(1));
    bind_all(parameters, at::kFloat, 1);
  }
  Parameters parameters;
  const Weight* weight = nullptr;
};

TEST(LmLoss, BlocksOfPositionsChangeNothing) {
  LargeHead head;
  PlainGradients gradients;
  head.parameters.wiring.tap = &gradients;
  at::manual_seed(1);
  const auto start = at::randn({2, LargeHead::kPositions, LargeHead::kWidth});
  auto labels = at::randint(LargeHead::kRows, {2, LargeHead::kPositions}, at::kLong);
  labels.slice(1, 0, 8).fill_(-100);  // a prompt: a whole block doesn't count
  const auto h = start.clone().set_requires_grad(true);
  const auto losses = lm_losses(h, *head.weight, head.parameters.wiring, labels, {});
  const auto g = at::tensor({0.7f, -1.3f});
  torch::autograd::backward({losses}, {g});
  const auto leaf = head.weight->value().to(at::kDouble).set_requires_grad(true);
  const auto exact = start.to(at::kDouble).set_requires_grad(true);
  const auto expected =
      at::cross_entropy_loss(at::linear(exact, leaf).transpose(1, 2), labels, {}, at::Reduction::None).sum(1) /
      (labels != -100).sum(1);
  torch::autograd::backward({expected}, {g.to(at::kDouble)});
  EXPECT_LT(relative_error(losses, expected), 1e-6);
  EXPECT_LT(relative_error(h.grad(), exact.grad()), 1e-5);
  EXPECT_LT(relative_error(gradients.of(*head.weight), leaf.grad()), 1e-5);
}

// Else the records that come before one would change its rounding.
TEST(LmLoss, APositionsPlaceDoesNotChangeItsBits) {
  LargeHead head;
  head.weight->value().mul_(4).round_();  // logits without rounding: only what is made of them is seen
  const auto threads = at::get_num_threads();
  at::set_num_threads(2);
  for (const int64_t samples : {2, 7, 13, 14, 25, 27, 37}) {
    const auto h = at::tensor({1.0f, -1.0f, 2.0f, 0.0f}).expand({samples, 1, LargeHead::kWidth}).contiguous();
    const auto labels = at::full({samples, 1}, 17, at::kLong);
    const auto losses = lm_losses(h, *head.weight, head.parameters.wiring, labels, {});
    EXPECT_TRUE(losses.eq(losses[0]).all().item<bool>()) << samples << " samples: " << losses;
  }
  at::set_num_threads(threads);
}

TEST(LmLoss, ASampleWithoutTokensHasLossZero) {
  Parameters parameters;
  parameters.begin_unit("head");
  const auto& weight = parameters.add("w", {30, 6}, Init::normal(1));
  bind_all(parameters, at::kDouble, 1);
  const auto losses = lm_losses(at::randn({2, 3, 6}, at::kDouble), weight, parameters.wiring,
                                at::tensor({-100, -100, -100, 1, 2, 3}, at::kLong).view({2, 3}), {});
  EXPECT_EQ(losses[0].item<double>(), 0);
  EXPECT_GT(losses[1].item<double>(), 0);
}

TEST(Labels, AreShiftedByOne) {
  EXPECT_TRUE(at::equal(shifted_labels(at::tensor({5, 6, 7}, at::kLong).view({1, 3})),
                        at::tensor({6, 7, -100}, at::kLong).view({1, 3})));
}

TEST(Classification, ReadsTheLastRealPosition) {
  const auto h = at::arange(12, at::kDouble).view({2, 3, 2});
  const auto mask = at::tensor({1, 1, 0, 1, 1, 1}, at::kLong).view({2, 3});
  EXPECT_TRUE(at::equal(last_position(h, mask), at::tensor({2.0, 3.0, 10.0, 11.0}, at::kDouble).view({2, 2})));
}

}  // namespace
}  // namespace shade::nn
