// What accelerators compute instead of a CPU's formulas: as many operators for every size, no question to the device,
// and norms that are bounds. norms_test, clip_test and sensitivity_test run in both forms.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <functional>

#include "shade/base/error.h"
#include "shade/nn/launches.h"
#include "shade/nn/parameters.h"
#include "shade/privacy/clip/exact_sum.h"
#include "shade/privacy/norms/embedding.h"
#include "shade/privacy/norms/linear.h"
#include "shade/privacy/norms/rounding.h"
#include "tests/support/operators.h"

namespace shade::privacy {
namespace {

struct Shape {
  int64_t samples, positions, width_in, width_out;
};
const Shape kShapes[] = {{1, 80, 64, 128}, {2, 300, 96, 64}, {5, 512, 128, 192}};

at::Tensor random(at::IntArrayRef shape, at::ScalarType type, uint64_t seed) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), at::kFloat).to(type);
}

// A layer's factors, and the tokens that it looks up.
struct Factors {
  Factors(const Shape& s, at::ScalarType type)
      : a_BTD(random({s.samples, s.positions, s.width_in}, type, 1)),
        g_BTP(random({s.samples, s.positions, s.width_out}, type, 2)),
        ids_BT(at::randint(0, 20, {s.samples, s.positions}, at::make_generator<at::CPUGeneratorImpl>(3), at::kLong)),
        gradients_BPD(sample_gradients(a_BTD, g_BTP)),
        sum(at::empty({s.width_in * s.width_out}, at::kDouble)),
        c_B(at::ones({s.samples}, at::kDouble)) {}
  at::Tensor a_BTD, g_BTP, ids_BT, gradients_BPD, sum, c_B;
};

// The same number for every shape, at most `most`, and nothing that waits.
void expect_fixed(const std::string& what, int64_t most, const std::function<void(const Factors&)>& run) {
  const nn::AsAccelerator as;
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    int64_t first = 0;
    for (const auto& shape : kShapes) {
      const Factors factors(shape, type);
      const test::Operators operators;
      run(factors);
      EXPECT_TRUE(operators.waits().empty()) << what << ": " << *operators.waits().begin();
      if (first == 0) first = operators.launched();
      EXPECT_EQ(operators.launched(), first) << what << " with " << shape.samples << " x " << shape.positions;
    }
    EXPECT_LE(first, most) << what << " in " << toString(type);
  }
}

TEST(Launches, AreAsManyForEverySize) {
  expect_fixed("gram", 28, [](const Factors& f) { gram_squares(f.a_BTD, f.g_BTP); });
  expect_fixed("instantiate", 17, [](const Factors& f) { instantiated_squares(f.a_BTD, f.g_BTP, GiB(1)); });
  expect_fixed("kept", 5, [](const Factors& f) { squares_of(f.gradients_BPD); });
  expect_fixed("embedding", 30, [](const Factors& f) { embedding_squares({f.ids_BT, f.a_BTD, nullptr, 3}); });
  expect_fixed("kept sum", 8, [](const Factors& f) {
    add_terms_of(f.sum, f.gradients_BPD.flatten(1), {f.c_B, 0x1p-33}, /*adds=*/false);
  });
  for (const bool kept : {false, true})
    expect_fixed(kept ? "tied, kept" : "tied", 72, [&](const Factors& f) {
      TiedRows rows;
      for (const int64_t row : {0, 10}) {
        const nn::LinearGrad head{.a_BTD = f.a_BTD,
                                  .g_BTP = f.g_BTP.narrow(2, row, 10),
                                  .weight = nullptr,
                                  .bias = nullptr,
                                  .row = row,
                                  .looked_up_BT = f.ids_BT};
        kept ? rows.add(head, f.gradients_BPD.narrow(1, row, 10)) : rows.add(head);
      }
      rows.lookup_squares({f.ids_BT, f.a_BTD, nullptr, -1}, f.c_B);
    });
}

// Without it the counts above would show nothing.
TEST(Launches, ACpusFormulasAreSeenToWait) {
  if (nn::few_launches(at::empty({0}))) GTEST_SKIP() << "these are an accelerator's";
  const test::Operators operators;
  gram_squares(random({2, 8, 4}, at::kFloat, 1), random({2, 8, 4}, at::kFloat, 2));
  EXPECT_TRUE(operators.waits().contains("aten::nonzero"));
}

// What underflow may do makes no sample uncertain that has ordinary numbers, or no gradient.
TEST(Launches, NoGradientIsMadeForUnderflow) {
  if (nn::few_launches(at::empty({0}))) GTEST_SKIP() << "accelerators make none";
  const auto a = random({2, 64, 32}, at::kFloat, 1), g = random({2, 64, 48}, at::kFloat, 2);
  const auto launched = [](const at::Tensor& a_BTD, const at::Tensor& g_BTP) {
    const test::Operators operators;
    gram_squares(a_BTD, g_BTP);
    return operators.launched();
  };
  const auto least = launched(a, g);
  for (const double a_scale : {1e-3, 1.0, 100.0})
    for (const double g_scale : {1.0, 1e-6, 1e-9, 1e-12, 1e-16, 1e-20, 1e-30, 1e-40, 0.0})
      EXPECT_EQ(launched(a * a_scale, g * g_scale), least) << a_scale << " " << g_scale;
  EXPECT_EQ(launched(a * 1e6, g * 0), least);
  auto cancelled = g.clone();
  cancelled.select(1, 1).copy_(-g.select(1, 0)), cancelled.narrow(1, 2, 62).zero_();
  EXPECT_GT(launched(at::ones_like(a), cancelled), least) << "the count must show it";
}

// Gram sums that cancel are raised to a floor: never below the norm, and never above the floor and what rounding adds.
TEST(GramFloor, BoundsWhatCancels) {
  const nn::AsAccelerator as;
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const double left : {1.0, 1e-1, 1e-2, 1e-3, 1e-4, 0.0})
      for (uint64_t seed = 0; seed < 20; ++seed) {
        const auto half_a = random({4, 32, 5}, type, seed), half_g = random({4, 32, 11}, type, seed + 100);
        const auto rest = random({4, 32, 11}, at::kFloat, seed + 200) * left;
        const auto a = at::cat({half_a, half_a}, 1), g = at::cat({half_g, (rest - half_g).to(type)}, 1);
        const auto exact = [](const at::Tensor& x) { return x.to(at::kDouble); };
        const auto norm = at::einsum("btp,btd->bpd", {exact(g), exact(a)}).flatten(1).square().sum(1);
        const auto terms = (at::bmm(exact(a), exact(a).transpose(1, 2)) * at::bmm(exact(g), exact(g).transpose(1, 2)));
        const auto floor = terms.abs().sum({1, 2}) * 1e-3;
        const auto ceiling = at::maximum(norm, floor) * 1.01;
        const auto found = gram_squares(a, g);
        EXPECT_TRUE(at::ge(found, norm).all().item<bool>()) << toString(type) << ", left " << left << ", seed " << seed;
        EXPECT_TRUE(at::ge(found, floor * (1 - 1e-6)).all().item<bool>()) << toString(type) << ", left " << left;
        EXPECT_TRUE(at::le(found, ceiling).all().item<bool>()) << toString(type) << ", left " << left;
      }
}

// Dot products in fp32, whose product is below all numbers of that type.
TEST(GramFloor, BoundsTermsThatUnderflow) {
  const nn::AsAccelerator as;
  const auto a = at::full({1, 4, 8}, 1e-16, at::kFloat), g = at::full({1, 4, 8}, 1e-8, at::kFloat);
  const double norm = 4 * 8 * 1e-16 * 1e-8;
  EXPECT_GE(gram_squares(a, g).item<double>(), norm * norm);
}

// Positions whose inputs are orthogonal and whose output gradients are equal: the terms off the diagonal are rounding
// alone, and large output gradients multiply it.
TEST(GramFloor, BoundsOrthogonalInputs) {
  const nn::AsAccelerator as;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto q = std::get<0>(at::linalg_qr(random({2, 64, 64}, at::kFloat, seed)));
    const auto g = random({2, 1, 48}, at::kFloat, seed + 1).expand({2, 64, 48}).contiguous();
    const auto norm = at::einsum("btp,btd->bpd", {g.to(at::kDouble), q.to(at::kDouble)}).flatten(1).square().sum(1);
    EXPECT_TRUE(at::ge(gram_squares(q, g), norm).all().item<bool>()) << seed;
  }
}

// Few tokens, so that they come often; one of them is padding, and samples share them.
TEST(EmbeddingNorms, OfAllSamplesAtOnceAreThoseOneByOne) {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16})
    for (const int64_t samples : {0, 1, 4})
      for (const int64_t positions : {1, 2, 50})
        for (const int64_t padding : {-1, 3}) {
          auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(positions));
          const nn::EmbeddingGrad grad{at::randint(0, 7, {samples, positions}, generator, at::kLong),
                                       random({samples, positions, 6}, type, 1), nullptr, padding};
          const auto wanted = embedding_squares(grad);
          const nn::AsAccelerator as;
          EXPECT_TRUE(at::allclose(embedding_squares(grad), wanted, 1e-6, 0))
              << toString(type) << ", " << samples << " x " << positions << ", padding " << padding;
        }
}

// A head in slices, some of whose gradients are kept and some of whose books are; tokens outside of all slices.
TEST(TiedNorms, OfAllSamplesAtOnceAreThoseOneByOne) {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16})
    for (const int64_t samples : {0, 1, 4})
      for (const int kept : {0, 1, 2, 3}) {  // a bit for each slice
        const auto ids = at::randint(0, 13, {samples, 9}, at::make_generator<at::CPUGeneratorImpl>(1), at::kLong);
        const auto a = random({samples, 9, 6}, type, 2), g = random({samples, 9, 12}, type, 3);
        const nn::EmbeddingGrad lookup{ids, random({samples, 9, 6}, type, 4), nullptr, 5};
        const auto squares = [&] {
          TiedRows rows;
          for (int slice = 0; slice < 2; ++slice) {
            const nn::LinearGrad head{.a_BTD = a,
                                      .g_BTP = g.narrow(2, 6 * slice, 6),
                                      .weight = nullptr,
                                      .bias = nullptr,
                                      .row = 6 * slice,
                                      .last = slice == 1,
                                      .looked_up_BT = ids};
            if ((kept >> slice & 1) != 0)
              rows.add(head, sample_gradients(a, head.g_BTP));
            else
              rows.add(head);
          }
          return rows.lookup_squares(lookup, at::ones({samples}, at::kDouble));
        };
        const auto wanted = squares();
        const nn::AsAccelerator as;
        EXPECT_TRUE(at::allclose(squares(), wanted, 1e-5, 1e-5)) << toString(type) << ", kept " << kept;
      }
}

}  // namespace
}  // namespace shade::privacy
