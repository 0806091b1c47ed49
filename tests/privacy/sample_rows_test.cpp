// Samples of several rows: every kind of layer hands over the gradients of samples, and blank rows count nowhere.
#include "shade/nn/sample_rows.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>

#include "shade/privacy/clip/exact_sum.h"
#include "tests/support/fault.h"

namespace shade::nn {
namespace {

using test::fault;

constexpr int64_t kSamples = 3, kRows = 2, kB = kSamples * kRows, kT = 4, kD = 5, kP = 7;

at::Tensor random_rows(at::IntArrayRef shape, uint64_t seed) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble);
}

// A rule that has each row's gradient.
struct Given : LayerRule {
  Given(const Weight& of, at::Tensor gradients) : weight(&of), gradients_B(std::move(gradients)) {}
  std::vector<const Weight*> weights() const override { return {weight}; }
  std::vector<at::Tensor> sample_gradients() const override { return {gradients_B}; }
  const Weight* weight;
  at::Tensor gradients_B;
};

struct RowKinds {
  RowKinds() {
    parameters.begin_unit("only");
    const auto add = [&](const char* name, std::vector<int64_t> shape) {
      auto& weight = parameters.add(name, shape, Init::constant(0));
      weight.bind(at::zeros(shape, at::kDouble));
      return &weight;
    };
    const auto ids = at::randint(0, 3, {kB, kT}, at::make_generator<at::CPUGeneratorImpl>(1), at::kLong);
    const auto g_BTD = random_rows({kB, kT, kD}, 2), g_BTP = random_rows({kB, kT, kP}, 3),
               a_BTD = random_rows({kB, kT, kD}, 4);
    const auto* own = add("own", {kD});
    all = {LinearGrad{a_BTD, g_BTP, add("w", {kP, kD}), add("b", {kP})},
           LinearGrad{at::Tensor(), g_BTP, nullptr, add("only bias", {kP})},
           EmbeddingGrad{ids, g_BTD, add("table", {3, kD}), 2},
           ScaleShiftGrad{a_BTD, g_BTD, add("s", {kD}), nullptr},
           AddedGrad{g_BTD, add("added", {kT, kD})},
           OwnGrad{g_BTD, std::make_shared<Given>(*own, random_rows({kB, kD}, 5))}};
  }
  // Each weight's gradient, rows or samples weighed by c.
  std::vector<at::Tensor> weighed(const LayerGrad& grad, const at::Tensor& c) {
    PlainGradients sums;
    privacy::add_clipped(grad, {c, 0x1p-45}, sums);
    std::vector<at::Tensor> out;
    for (const auto& weight : parameters.weights())
      if (sums.has(weight)) out.push_back(sums.of(weight));
    return out;
  }

  Parameters parameters;
  std::vector<LayerGrad> all;
};

TEST(SampleRows, AreOneSampleOfEveryKindOfLayer) {
  RowKinds kinds;
  const auto c_S = random_rows({kSamples}, 9), c_B = c_S.repeat_interleave(kRows);
  for (const auto& grad : kinds.all) {
    const auto rows = kinds.weighed(grad, c_B), samples = kinds.weighed(by_sample(grad, kRows), c_S);
    ASSERT_EQ(rows.size(), samples.size());
    ASSERT_FALSE(rows.empty());
    for (size_t i = 0; i < rows.size(); ++i)
      EXPECT_TRUE(at::allclose(rows[i], samples[i], 1e-10, 1e-12)) << grad.index();
    const auto none = kinds.weighed(by_sample(grad, kRows), at::zeros({kSamples}, at::kDouble));
    for (const auto& sum : none) EXPECT_EQ(sum.abs().sum().item<double>(), 0);
  }
}

TEST(SampleRows, AGradientWithoutThemStaysAsItIs) {
  RowKinds kinds;
  for (const auto& grad : kinds.all) {
    const auto same = by_sample(grad, 4);  // 6 rows
    std::visit([](const auto& g) { static_cast<void>(g); }, same);
    if (const auto* linear = std::get_if<LinearGrad>(&same)) EXPECT_EQ(linear->g_BTP.size(0), kB);
    if (const auto* own = std::get_if<OwnGrad>(&same)) EXPECT_EQ(own->g_B.size(0), kB);
  }
}

TEST(SampleRows, ALossIsTheMeanOfItsRecords) {
  Batch records;
  records.ids_BT = at::arange(1, 5).view({4, 1}), records.labels = at::arange(11, 15);
  const auto batch = in_samples(records, std::vector<int64_t>{1, 3, 0}, 3);
  EXPECT_EQ(batch.samples(), 3);
  EXPECT_TRUE(batch.ids_BT.view(-1).equal(at::tensor({1, 0, 0, 2, 3, 4, 0, 0, 0}, at::kLong)));
  EXPECT_TRUE(batch.labels.equal(at::tensor({11, 0, 0, 12, 13, 14, 0, 0, 0}, at::kLong)));
  const double bad = std::numeric_limits<double>::quiet_NaN();
  auto losses_B = at::tensor({2.0, bad, bad, 1.0, 2.0, 6.0, bad, bad, bad}, at::kDouble).set_requires_grad(true);
  const auto losses_S = sample_losses(losses_B, batch);
  EXPECT_TRUE(losses_S.equal(at::tensor({2.0, 3.0, 0.0}, at::kDouble)));
  torch::autograd::backward({losses_S.sum()}, {});
  const double third = 1.0 / 3;
  EXPECT_TRUE(losses_B.grad().equal(at::tensor({1.0, 0.0, 0.0, third, third, third, 0.0, 0.0, 0.0}, at::kDouble)));

  const auto middle = batch.rows(1, 1);
  EXPECT_TRUE(middle.ids_BT.view(-1).equal(at::tensor({2, 3, 4}, at::kLong)));
  EXPECT_EQ(middle.samples(), 1);
  auto whole = records;  // all rows are records
  whole.rows_per_sample = 2;
  EXPECT_TRUE(sample_losses(at::tensor({1.0, 2.0, 3.0, 5.0}), whole).equal(at::tensor({1.5, 4.0})));
  EXPECT_TRUE(sample_losses(at::tensor({1.0, 2.0, 3.0, 5.0}), records).equal(at::tensor({1.0, 2.0, 3.0, 5.0})));
  EXPECT_NE(fault([&] { sample_losses(at::ones({2}), whole); }).find("expected one loss per row"), std::string::npos);
  EXPECT_NE(fault([&] { in_samples(records, std::vector<int64_t>{4}, 3); }).find("4 records in 3 rows"),
            std::string::npos);
  EXPECT_NE(
      fault([&] { in_samples(records, std::vector<int64_t>{1, 1}, 3); }).find("4 records for samples that have 2"),
      std::string::npos);
}

}  // namespace
}  // namespace shade::nn
