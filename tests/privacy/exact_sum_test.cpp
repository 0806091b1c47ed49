// The clipped sum: what one sample adds depends on that sample alone, and no addition is rounded.
#include "shade/privacy/clip/exact_sum.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "shade/nn/launches.h"
#include "shade/nn/parameters.h"
#include "shade/privacy/exact_kernels.h"
#include "tests/support/fault.h"

namespace shade::privacy {
namespace {

constexpr int64_t kSummedT = 6, kSummedD = 5, kSummedP = 11;

at::Tensor drawn(at::IntArrayRef shape, at::ScalarType type, uint64_t seed) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble).to(type);
}

// Every kind of layer, for so many samples.
struct AllKinds {
  AllKinds(int64_t samples, at::ScalarType type, uint64_t seed) {
    parameters.begin_unit("only");
    const auto add = [&](const char* name, std::vector<int64_t> shape) {
      auto& weight = parameters.add(name, shape, nn::Init::constant(0));
      weight.bind(at::zeros(shape, at::kFloat));
      return &weight;
    };
    const auto ids = at::randint(0, 7, {samples, kSummedT}, at::make_generator<at::CPUGeneratorImpl>(seed), at::kLong);
    const auto a = drawn({samples, kSummedT, kSummedD}, type, seed + 1),
               g = drawn({samples, kSummedT, kSummedP}, type, seed + 2),
               h = drawn({samples, kSummedT, kSummedD}, type, seed + 3);
    all = {nn::LinearGrad{a, g, add("w", {kSummedP, kSummedD}), add("b", {kSummedP})},
           nn::EmbeddingGrad{ids, h, add("table", {7, kSummedD}), 2},
           nn::ScaleShiftGrad{a, h, add("scale", {kSummedD}), add("shift", {kSummedD})},
           nn::AddedGrad{h, add("added", {kSummedT, kSummedD})}};
    c_B = at::rand({samples}, at::make_generator<at::CPUGeneratorImpl>(seed + 4), at::kDouble) * 0.1;
  }

  static nn::LayerGrad chosen(nn::LayerGrad grad, const at::Tensor& which) {
    const auto pick = [&](at::Tensor& x) { x = x.index_select(0, which); };
    if (auto* linear = std::get_if<nn::LinearGrad>(&grad)) pick(linear->a_BTD), pick(linear->g_BTP);
    if (auto* lookup = std::get_if<nn::EmbeddingGrad>(&grad)) pick(lookup->ids_BT), pick(lookup->g_BTD);
    if (auto* norm = std::get_if<nn::ScaleShiftGrad>(&grad)) pick(norm->xhat_BTD), pick(norm->g_BTD);
    if (auto* added = std::get_if<nn::AddedGrad>(&grad)) pick(added->g_BTD);
    return grad;
  }

  // The sums of some samples in micro-batches of so many.
  std::vector<at::Tensor> sums(const std::vector<int64_t>& samples, size_t at_a_time) const {
    nn::PlainGradients sink(at::kDouble);
    for (size_t begin = 0; begin < samples.size(); begin += at_a_time) {
      const auto end = std::min(samples.size(), begin + at_a_time);
      const auto which = at::tensor(std::vector<int64_t>(samples.begin() + static_cast<int64_t>(begin),
                                                         samples.begin() + static_cast<int64_t>(end)),
                                    at::kLong);
      for (const auto& grad : all) add_clipped(chosen(grad, which), {c_B.index_select(0, which), kSpacing}, sink);
    }
    std::vector<at::Tensor> out;
    for (const auto& weight : parameters.weights()) out.push_back(sink.of(weight));
    return out;
  }

  static constexpr double kSpacing = 0x1p-33;
  nn::Parameters parameters;
  std::vector<nn::LayerGrad> all;
  at::Tensor c_B;
};

TEST(ExactSum, HasTheSameBitsInEveryOrderAndInAllMicroBatches) {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const AllKinds kinds(12, type, 1);
    std::vector<int64_t> order(12);
    std::iota(order.begin(), order.end(), 0);
    const auto first = kinds.sums(order, 12);
    for (const size_t at_a_time : {1U, 5U, 7U}) {
      std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<unsigned>(at_a_time)));
      const auto other = kinds.sums(order, at_a_time);
      for (size_t i = 0; i < first.size(); ++i)
        EXPECT_TRUE(other[i].equal(first[i])) << toString(type) << ", " << at_a_time << " at a time, weight " << i;
    }
  }
}

TEST(ExactSum, OneSampleMovesItByItsOwnTermAlone) {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const AllKinds kinds(9, type, 7);
    const auto with = kinds.sums({0, 1, 2, 3, 4, 5, 6, 7, 8}, 4), without = kinds.sums({0, 1, 2, 3, 5, 6, 7, 8}, 4),
               alone = kinds.sums({4}, 1);
    for (size_t i = 0; i < with.size(); ++i) {
      EXPECT_TRUE((with[i] - without[i]).equal(alone[i])) << toString(type) << ", weight " << i;
      EXPECT_TRUE((alone[i] / AllKinds::kSpacing).frac().eq(0).all().item<bool>()) << "on the grid";
    }
  }
}

// Records that lift an fp32 sum to just below a power of two, one that lifts it above, and many of -0.6 units in the
// last place below it: rounded to a whole unit, or to none, as soon as the sum is twice as large.
TEST(ExactSum, SmallTermsAfterALargeOneCountInFull) {
  constexpr double kC = 1;
  const double spacing = sum_spacing(kC);
  for (const int64_t many : {512, 4096}) {
    const auto small = at::full({many, 1}, -0.6 * 0x1p-24 * static_cast<double>(many), at::kFloat);
    auto large = at::full({many, 1}, 1.0 - 1e-5, at::kFloat);
    const auto sum_of = [&](bool with, int64_t at_a_time, auto type) {
      auto sum = at::zeros({1}, type);
      std::vector<at::Tensor> parts{large};
      if (with) parts.push_back(at::full({1, 1}, 1.0 - 1e-5, at::kFloat));
      parts.push_back(small);
      const auto all = at::cat(parts);
      for (int64_t at = 0; at < all.size(0); at += at_a_time) {
        const auto some = all.narrow(0, at, std::min(at_a_time, all.size(0) - at));
        if (type == at::kDouble)
          add_terms_of(sum, some, {at::ones({some.size(0)}, at::kDouble), spacing}, /*adds=*/true);
        else
          sum += some.sum(0);
      }
      return sum.template item<double>();
    };
    for (const int64_t at_a_time : {1, 16}) {
      EXPECT_LE(sum_of(true, at_a_time, at::kDouble) - sum_of(false, at_a_time, at::kDouble), kC) << many;
      EXPECT_NEAR(sum_of(true, at_a_time, at::kDouble) - sum_of(false, at_a_time, at::kDouble), 1.0 - 1e-5, 1e-7);
    }
    const auto rounded = sum_of(true, 1, at::kFloat) - sum_of(false, 1, at::kFloat);
    EXPECT_GT(std::abs(rounded - (1.0 - 1e-5)), 1e-3) << "the case must round: " << rounded;
  }
}

TEST(ExactSum, IsThatOfTheDefinition) {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const AllKinds kinds(5, type, 3);
    const auto found = kinds.sums({0, 1, 2, 3, 4}, 2);
    const auto exact = [](const at::Tensor& x) { return x.to(at::kDouble); };
    const auto& linear = std::get<nn::LinearGrad>(kinds.all[0]);
    const auto& lookup = std::get<nn::EmbeddingGrad>(kinds.all[1]);
    const auto& norm = std::get<nn::ScaleShiftGrad>(kinds.all[2]);
    const auto c = kinds.c_B.view({-1, 1, 1});
    auto table = at::zeros({7, kSummedD}, at::kDouble);
    const auto rows = (exact(lookup.g_BTD) * c).masked_fill((lookup.ids_BT == 2).unsqueeze(2), 0);
    table.index_add_(0, lookup.ids_BT.view(-1), rows.view({-1, kSummedD}));
    const std::vector<at::Tensor> wanted{at::einsum("btp,btd->pd", {exact(linear.g_BTP) * c, exact(linear.a_BTD)}),
                                         (exact(linear.g_BTP) * c).sum({0, 1}),
                                         table,
                                         (exact(norm.xhat_BTD) * exact(norm.g_BTD) * c).sum({0, 1}),
                                         (exact(norm.g_BTD) * c).sum({0, 1}),
                                         (exact(norm.g_BTD) * c).sum(0)};
    for (size_t i = 0; i < wanted.size(); ++i)
      EXPECT_TRUE(at::allclose(found[i], wanted[i], type == at::kDouble ? 1e-12 : 1e-6, 1e-8))
          << toString(type) << ", weight " << i;
  }
}

TEST(ExactSum, LeavesOutWhatWeighsNothingWhateverItHolds) {
  AllKinds kinds(3, at::kFloat, 5);
  const auto wanted = kinds.sums({0, 2}, 2);
  kinds.c_B[1].fill_(0);
  for (auto& grad : kinds.all) for_each_tensor(grad, [](const at::Tensor& factor) { factor[1].fill_(std::nan("")); });
  const auto found = kinds.sums({0, 1, 2}, 3);
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(found[i].equal(wanted[i])) << i;
}

TEST(ExactSum, NeedsWideBuffers) {
  const AllKinds kinds(1, at::kFloat, 1);
  nn::PlainGradients sink(at::kFloat);
  EXPECT_NE(test::fault([&] { add_clipped(kinds.all[0], {kinds.c_B, 0x1p-33}, sink); }).find("expected fp64"),
            std::string::npos);
}

// Parts of a gradient that is wider than the blocks that are multiplied at a time.
TEST(ExactSum, BlocksOfAWideProductAreItsRows) {
  nn::Parameters parameters;
  parameters.begin_unit("only");
  auto& weight = parameters.add("w", {1500, 700}, nn::Init::constant(0));
  weight.bind(at::zeros({1500, 700}));
  const auto a = drawn({2, 3, 700}, at::kFloat, 1), g = drawn({2, 3, 1500}, at::kFloat, 2);
  const auto c = at::tensor({0.3, 0.7}, at::kDouble);
  nn::PlainGradients sink(at::kDouble);
  add_clipped(nn::LinearGrad{a, g, &weight, nullptr}, {c, 0x1p-33}, sink);
  const auto wanted = at::einsum("btp,btd->pd", {g.to(at::kDouble) * c.view({-1, 1, 1}), a.to(at::kDouble)});
  EXPECT_TRUE(at::allclose(sink.of(weight), wanted, 1e-6, 1e-6));
}

template <class Number>
void expect_same_bits(const std::vector<double>& values) {
  std::vector<Number> x, y;
  const auto number = [](double value) {
    if constexpr (std::is_same_v<Number, double>)
      return value;
    else
      return static_cast<Number>(static_cast<float>(value));
  };
  for (const auto value : values) x.push_back(number(value)), y.push_back(number(1 - value));
  const auto count = std::ssize(x);
  const std::vector<double> norms(x.size(), 1.5);
  for (const double spacing : {0x1p-33, 0x1p-20, 0x1p4}) {
    std::vector<double> wanted(x.size(), 3 * spacing);
    for (size_t i = 0; i < x.size(); ++i)
      wanted[i] += std::nearbyint(static_cast<double>(x[i]) * 0.37 / spacing) * spacing;
    for (const auto variant : variants()) {
      std::vector<double> sums(x.size(), 3 * spacing);
      add_terms(x.data(), 0.37, spacing, count, sums.data(), /*adds=*/true, variant);
      EXPECT_EQ(sums, wanted) << static_cast<int>(variant) << ", spacing " << spacing;
      for (const size_t from : {size_t{0}, size_t{1}, size_t{5}}) {  // lines of memory begin elsewhere
        std::vector<double> copied(x.size(), -1);
        copy_past_caches(wanted.data() + from, count - static_cast<int64_t>(from), copied.data() + from, variant);
        for (size_t i = 0; i < copied.size(); ++i)
          ASSERT_EQ(copied[i], i < from ? -1 : wanted[i]) << i << " of those from " << from;
      }
    }
  }
  for (const auto variant : variants()) {
    EXPECT_EQ(sum_of_squares(x.data(), count, variant), sum_of_squares(x.data(), count, Variant::portable));
    const auto found = gram_row(x.data(), y.data(), norms.data(), norms.data(), count, variant);
    const auto wanted = gram_row(x.data(), y.data(), norms.data(), norms.data(), count, Variant::portable);
    EXPECT_EQ(found.terms, wanted.terms);
    EXPECT_EQ(found.by_a, wanted.by_a);
    EXPECT_EQ(found.by_g, wanted.by_g);
  }
}

// The sum of a weight that is larger than caches is written by other instructions.
TEST(ExactSum, OfALargeWeightIsTheSame) {
  constexpr int64_t kLarge = (1 << 18) + 5;
  for (const auto type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    const auto x_BN = drawn({3, kLarge}, type, 5);
    for (const auto& c : std::vector<std::vector<double>>{{0.37, 0, 0}, {0, 0, 0.37}, {0.37, 0.5, 0.2}, {0, 0, 0}}) {
      const auto c_B = at::tensor(c, at::kDouble);
      auto put = at::full({kLarge}, 7.0, at::kDouble), added = at::zeros({kLarge}, at::kDouble);
      add_terms_of(put, x_BN, {c_B, 0x1p-33}, /*adds=*/false);
      add_terms_of(added, x_BN, {c_B, 0x1p-33}, /*adds=*/true);
      EXPECT_TRUE(put.equal(added)) << at::toString(type) << ", coefficients " << c_B;
    }
  }
}

TEST(ExactKernels, HaveTheSameBitsWithAllInstructions) {
  std::mt19937_64 generator(3);
  std::normal_distribution<double> normal;
  std::vector<double> values;
  for (int i = 0; i < 1003; ++i) values.push_back(normal(generator) * std::ldexp(1.0, i % 30 - 25));
  for (const double tie : {0.5, 1.5, 2.5, -0.5, -1.5}) values.push_back(tie * 16 / 0.37);
  expect_same_bits<float>(values);
  expect_same_bits<double>(values);
  expect_same_bits<c10::BFloat16>(values);
}

}  // namespace
}  // namespace shade::privacy
