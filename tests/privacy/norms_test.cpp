// Squared norms of each sample's gradient against the definition: every sample's gradient made whole, in fp64.
//
// Legend: B samples, T positions, D input width, P output width.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "shade/base/error.h"
#include "shade/nn/launches.h"
#include "shade/nn/parameters.h"
#include "shade/privacy/norms/added.h"
#include "shade/privacy/norms/embedding.h"
#include "shade/privacy/norms/linear.h"
#include "shade/privacy/norms/position_sums.h"
#include "shade/privacy/norms/rounding.h"
#include "shade/privacy/norms/scale_shift.h"

namespace shade::privacy {
namespace {

constexpr int64_t kT = 7, kD = 5, kP = 11;

at::Tensor random(at::IntArrayRef shape, at::ScalarType type, uint64_t seed) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble).to(type);
}

at::Tensor exact(const at::Tensor& x) { return x.to(at::kDouble); }
at::Tensor true_squares(const at::Tensor& x_B) { return exact(x_B).flatten(1).square().sum(1); }

// The definition, from the numbers as they are after rounding to their type.
at::Tensor defined(const at::Tensor& a_BTD, const at::Tensor& g_BTP) {
  return true_squares(at::einsum("btp,btd->bpd", {exact(g_BTP), exact(a_BTD)}));
}

struct Precision {
  at::ScalarType type;
  double made, summed;  // relative marks: for gradients made in the type, and for products and sums in fp32 at least
};
const Precision kTypes[] = {{at::kFloat, 1e-5, 3e-5}, {at::kDouble, 1e-10, 1e-10}, {at::kBFloat16, 1e-2, 3e-5}};

void expect_near(const at::Tensor& found_B, const at::Tensor& wanted_B, double mark, const std::string& what) {
  ASSERT_EQ(found_B.sizes(), wanted_B.sizes()) << what;
  EXPECT_EQ(found_B.scalar_type(), at::kDouble) << what;
  for (int64_t b = 0; b < wanted_B.size(0); ++b) {
    const auto wanted = wanted_B[b].item<double>();
    EXPECT_NEAR(found_B[b].item<double>(), wanted, mark * wanted) << what << ", sample " << b;
  }
}

// Not below, to the last digit but those of the reference.
void expect_bound(const at::Tensor& found_B, const at::Tensor& wanted_B, const std::string& what) {
  EXPECT_TRUE(at::ge(found_B, wanted_B * (1 - 1e-14)).all().item<bool>()) << what << ": " << found_B << wanted_B;
}

TEST(LinearNorms, EveryTypeTileAndWorkspace) {
  for (const auto& [type, made, summed] : kTypes)
    for (const int64_t samples : {0, 1, 3}) {
      const auto a = random({samples, kT, kD}, type, 1), g = random({samples, kT, kP}, type, 2);
      const auto wanted = defined(a, g);
      const auto name = text(toString(type), ", ", samples, " samples, ");
      for (const int64_t tile : {int64_t{1}, int64_t{3}, kT, 4 * kT})
        expect_near(gram_squares(a, g, tile), wanted, summed, text(name, "tile ", tile));
      for (const int64_t rows : {int64_t{0}, int64_t{1}, int64_t{4}, kP, 4 * kP})  // 0: less than a row
        expect_near(instantiated_squares(a, g, Bytes{rows * kD * 4}), wanted, summed, text(name, rows, " rows"));
      const auto gradients = sample_gradients(a, g);
      EXPECT_EQ(gradients.sizes(), (std::vector<int64_t>{samples, kP, kD}));
      EXPECT_EQ(gradients.scalar_type(), type);
      expect_near(squares_of(gradients), wanted, made, name + "kept");
    }
}

TEST(LinearNorms, OnePosition) {
  const auto a = random({3, 1, kD}, at::kFloat, 1), g = random({3, 1, kP}, at::kFloat, 2);
  expect_near(gram_squares(a, g, 128), defined(a, g), 1e-5, "gram");
  expect_near(instantiated_squares(a, g, MiB(1)), defined(a, g), 1e-5, "instantiate");
}

// Pairs of positions that undo each other but for a share of `left`: the Gram sum loses its digits, the norm must not.
TEST(LinearNorms, CancelledGramSumsFallBack) {
  if (nn::few_launches(at::empty({0}))) GTEST_SKIP() << "accelerators raise them to a floor (launches_test.cpp)";
  constexpr double kLeft = 1e-4;
  auto a = random({3, 8, kD}, at::kDouble, 1), g = random({3, 8, kP}, at::kDouble, 2);
  for (const int64_t b : {0, 2})  // the sample between them is an ordinary one
    for (int64_t t = 0; t < 8; t += 2) {
      a[b][t + 1].copy_(a[b][t]);
      g[b][t + 1].copy_(g[b][t] * (kLeft - 1));
    }
  a = a.to(at::kFloat), g = g.to(at::kFloat);
  const auto wanted = defined(a, g);
  const auto terms = at::einsum("btd,bsd->bts", {a.abs(), a.abs()}) * at::einsum("btp,bsp->bts", {g.abs(), g.abs()});
  ASSERT_LT((wanted[0] / terms[0].sum()).item<double>(), 1e-7) << "the case must cancel";
  for (const int64_t tile : {1, 3, 8, 100}) {
    const auto found = gram_squares(a, g, tile);
    expect_bound(found, wanted, text("tile ", tile));
    expect_near(found, wanted, 0.1, text("tile ", tile));  // 2 gamma_T of the positions' norms, 10,000 times as large
  }
}

// bf16: the product 1.128... lies between two numbers of that type, and rounded down it would be 0.34 % too small.
TEST(LinearNorms, AreOfTheProductThatIsSummed) {
  const auto a = at::full({1, 1, 1}, 1 + 7.0 / 128, at::kBFloat16),
             g = at::full({1, 1, 1}, 1 + 9.0 / 128, at::kBFloat16);
  const auto wanted = defined(a, g);
  ASSERT_LT(squares_of(sample_gradients(a, g)).item<double>(), 0.994 * wanted.item<double>()) << "the case must round";
  for (const auto& found : {instantiated_squares(a, g, MiB(1)), gram_squares(a, g, 1)}) {
    expect_bound(found, wanted, "one position");
    expect_near(found, wanted, 1e-5, "one position");
  }
}

// Whatever cancels: the norm is not below that of the exact gradient, nor of the one that is summed in fp32.
TEST(LinearNorms, BoundWhatIsSummed) {
  at::set_num_threads(1);  // small tensors
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16})
    for (const double left : {1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 0.0})
      for (uint64_t seed = 0; seed < 20; ++seed) {
        const auto half_a = random({4, 32, kD}, at::kFloat, seed), half_g = random({4, 32, kP}, at::kFloat, seed + 100);
        const auto rest = random({4, 32, kP}, at::kFloat, seed + 200);
        const auto a = at::cat({half_a, half_a}, 1).to(type);
        const auto g = at::cat({half_g.to(type), half_g.to(type).neg() + rest.to(type) * left}, 1).to(type);
        const auto wide = type == at::kDouble ? type : at::kFloat;
        const auto wanted =
            at::maximum(defined(a, g), true_squares(at::bmm((g.to(wide) * 0.37).transpose(1, 2), a.to(wide)) / 0.37));
        const auto what = text(toString(type), ", left ", left, ", seed ", seed);
        for (const int64_t tile : {8, 64}) expect_bound(gram_squares(a, g, tile), wanted, what);
        expect_bound(instantiated_squares(a, g, MiB(1)), wanted, what);
        EXPECT_TRUE(at::allclose(bias_squares(g), true_squares(exact(g).sum(1)), 1e-9, 1e-20)) << what << ", bias";
      }
}

// Small factors times large ones: dot products of the small ones underflow, and the large ones multiply what is lost.
TEST(LinearNorms, BoundWhatUnderflows) {
  constexpr int64_t kWide = 512;
  const auto bounds = [](const at::Tensor& a, const at::Tensor& g, const at::Tensor& wanted, const std::string& what) {
    ASSERT_GT(wanted.item<double>(), 1e-20) << what;
    expect_bound(gram_squares(a, g), wanted, what + ", gram");
    expect_bound(instantiated_squares(a, g, MiB(1)), wanted, what + ", instantiate");
  };
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const double lost : {1.9 * 0x1p-76, 1.9 * 0x1p-70, 1.9 * 0x1p-80}) {
      auto small = at::full({1, 1, kWide}, lost, at::kDouble);
      small[0][0][0] = 8 * lost;
      small = small.to(type);
      const auto large = at::full({1, 1, 1}, 0x1p63, type);
      bounds(small, large, defined(small, large), text(toString(type), ", a of ", lost));
      bounds(large, small, defined(large, small), text(toString(type), ", g of ", lost));
    }
  const auto large = at::full({1, 1, 1}, 1e153, at::kDouble), small = at::full({1, 1, 1}, 1e-162, at::kDouble);
  bounds(small, large, defined(small, large), "fp64");
  // -0.9 + 1: the first is 0 where subnormal factors count as 0, as they do in products of bf16 by AVX-512 and AMX.
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const auto a = at::tensor({-115 * 0x1p-133, 1.0}, at::kDouble).view({1, 2, 1}).to(type);
    const auto g = at::tensor({0x1p126, 1.0}, at::kDouble).view({1, 2, 1}).to(type);
    expect_bound(instantiated_squares(a, g, MiB(1)), at::ones({1}, at::kDouble), text(toString(type), ", subnormal"));
    EXPECT_TRUE(gram_squares(a, g).isnan().item<bool>()) << "g . g overflows: the sample is left out";
  }
}

TEST(LinearNorms, NothingLeftIsNextToZeroAndNeverNegative) {
  if (nn::few_launches(at::empty({0}))) GTEST_SKIP() << "accelerators raise it to a floor (launches_test.cpp)";
  auto a = random({1, 2, kD}, at::kFloat, 1), g = random({1, 2, kP}, at::kFloat, 2);
  a[0][1].copy_(a[0][0]);
  g[0][1].copy_(-g[0][0]);
  EXPECT_GE(gram_squares(a, g, 1).item<double>(), 0);
  EXPECT_LT(gram_squares(a, g, 1).item<double>(), 1e-10) << "4 u of the positions' norms, squared";
}

// One infinite sample must not touch its neighbours, and must not pass for finite.
TEST(LinearNorms, NotFiniteStaysWithItsSample) {
  auto a = random({3, kT, kD}, at::kFloat, 1), g = random({3, kT, kP}, at::kFloat, 2);
  const auto wanted = defined(a, g);
  for (const double bad : {std::numeric_limits<double>::infinity(), std::nan(""), 1e30}) {
    g[1][2].fill_(bad);
    for (const auto& found : {gram_squares(a, g, 3), instantiated_squares(a, g, MiB(1)), bias_squares(g),
                              squares_of(sample_gradients(a, g))})
      EXPECT_FALSE(found[1].item<double>() <= 1e60) << bad << " (such norms are left out, clip/sample_norms.cpp)";
    const auto gram = gram_squares(a, g, 3);
    for (const int64_t b : {0, 2}) EXPECT_NEAR(gram[b].item<double>() / wanted[b].item<double>(), 1, 1e-5);
  }
}

// Few large numbers before a million small ones, which a single accumulator would forget.
TEST(Squares, ForgetNoneOfManySmallNumbers) {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    auto gradients = at::ones({2, 1024, 1024 + 1}, type);
    gradients.view({2, -1}).narrow(1, 0, 64).fill_(4096);
    const double wanted = 64.0 * 4096 * 4096 + (1024.0 * 1025 - 64);
    for (const int64_t b : {0, 1}) EXPECT_NEAR(squares_of(gradients)[b].item<double>() / wanted, 1, 1e-5);
  }
}

// With T > 1 the norm of the sum is not the sum of the squares.
TEST(BiasNorms, AreOfTheSumOverPositions) {
  for (const auto& [type, made, summed] : kTypes)
    for (const int64_t samples : {0, 1, 3}) {
      const auto g = random({samples, kT, kP}, type, 3);
      expect_near(bias_squares(g), true_squares(exact(g).sum(1)), summed, toString(type));
    }
}

TEST(ScaleShiftNorms, AreOfTheSumOverPositions) {
  for (const auto& [type, made, summed] : kTypes)
    for (const int64_t samples : {0, 1, 3}) {
      const nn::ScaleShiftGrad grad{random({samples, kT, kD}, type, 1), random({samples, kT, kD}, type, 2), nullptr,
                                    nullptr};
      const auto scale = (exact(grad.xhat_BTD) * exact(grad.g_BTD)).sum(1), shift = exact(grad.g_BTD).sum(1);
      expect_near(squares_of(scale_gradients(grad)), true_squares(scale), made, text("scale ", toString(type)));
      expect_near(squares_of(shift_gradients(grad)), true_squares(shift), summed, text("shift ", toString(type)));
    }
}

TEST(AddedNorms, AreOfTheOutputGradientItself) {
  for (const auto& [type, made, summed] : kTypes)
    for (const int64_t samples : {0, 1, 3}) {
      const auto g = random({samples, kT, kD}, type, 4);
      expect_near(added_squares({g, nullptr}), true_squares(g), summed, toString(type));
    }
}

// A lookup's gradient, made whole: [B, V, D].
constexpr int64_t kV = 9;
at::Tensor table_gradients(const nn::EmbeddingGrad& grad) {
  auto out = at::zeros({grad.ids_BT.size(0), kV, grad.g_BTD.size(2)}, at::kDouble);
  for (int64_t b = 0; b < grad.ids_BT.size(0); ++b)
    for (int64_t t = 0; t < grad.ids_BT.size(1); ++t) {
      const auto id = grad.ids_BT[b][t].item<int64_t>();
      if (id != grad.padding) out[b][id] += exact(grad.g_BTD[b][t]);
    }
  return out;
}

// Tokens come twice and more in a sample, and in several samples; 2 is padding, in the middle and at the end.
at::Tensor ids(int64_t samples) {
  return at::tensor({4, 2, 4, 8, 0, 4, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 3, 5, 3, 8, 2}, at::kLong)
      .view({3, kT})
      .narrow(0, 0, samples);
}

TEST(EmbeddingNorms, RepeatedTokensAndPadding) {
  for (const auto& [type, made, summed] : kTypes)
    for (const int64_t samples : {0, 1, 3})
      for (const int64_t padding : {-1, 2}) {
        const nn::EmbeddingGrad grad{ids(samples), random({samples, kT, kD}, type, 5), nullptr, padding};
        expect_near(embedding_squares(grad), true_squares(table_gradients(grad)), summed,
                    text(toString(type), ", padding ", padding));
      }
}

// |E + H|^2 of a table that is the head as well, the head in slices of rows.
TEST(TiedNorms, CrossTerm) {
  for (const auto& [type, made, summed] : kTypes)
    for (const int64_t samples : {0, 1, 3})
      for (const int64_t padding : {-1, 2})
        for (const int64_t slice : {int64_t{2}, int64_t{4}, kV}) {
          const nn::EmbeddingGrad lookup{ids(samples), random({samples, kT, kD}, type, 5), nullptr, padding};
          const auto a = random({samples, kT, kD}, type, 6), g = random({samples, kT, kV}, type, 7);
          TiedRows rows;
          for (int64_t row = 0; row < kV; row += slice)
            rows.add({.a_BTD = a,
                      .g_BTP = g.narrow(2, row, std::min(slice, kV - row)),
                      .weight = nullptr,
                      .bias = nullptr,
                      .row = row,
                      .last = row + slice >= kV,
                      .looked_up_BT = lookup.ids_BT});
          const auto head = at::einsum("btv,btd->bvd", {exact(g), exact(a)});
          const auto whole = true_squares(table_gradients(lookup) + head);
          const auto squares = gram_squares(a, g, 3);
          expect_near(squares + rows.lookup_squares(lookup, squares), whole, 3 * summed,
                      text(toString(type), ", slices of ", slice, ", padding ", padding));
        }
}

// E is -H but for a share: the three terms cancel to less than their rounding, and the norm must not vanish with them.
TEST(TiedNorms, AreNotBelowWhatCancels) {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16})
    for (const double left : {1e-2, 1e-3, 1e-4, 1e-5, 1e-6})
      for (uint64_t seed = 0; seed < 20; ++seed) {
        // One position per token, so that E can be any matrix; H has one position: an outer product.
        const auto ids = at::arange(kV).view({1, kV});
        auto z = at::zeros({1, kV, kV}, type), x = at::zeros({1, kV, kD}, type);
        z[0][3].copy_(random({kV}, type, seed)), x[0][3].copy_(random({kD}, type, seed + 1));
        const auto h = at::einsum("btv,btd->bvd", {exact(z), exact(x)});
        const nn::EmbeddingGrad lookup{ids, (-h + left * random({1, kV, kD}, at::kDouble, seed + 2)).to(type), nullptr,
                                       -1};
        TiedRows rows;
        rows.add({.a_BTD = x, .g_BTP = z, .weight = nullptr, .bias = nullptr, .looked_up_BT = ids});
        const auto squares = gram_squares(x, z, 3);
        expect_bound(squares + rows.lookup_squares(lookup, squares), true_squares(table_gradients(lookup) + h),
                     text(toString(type), ", left ", left, ", seed ", seed));
      }
}

// A token that comes often, whose terms are large and cancel: E is their sum, nearly -H, and its product with H must
// not be lost in theirs.
TEST(TiedNorms, AreNotBelowWhatATokensPositionsCancel) {
  constexpr int64_t kOften = 128;
  for (const double large : {1e4, 1e8, 1.1e20})
    for (const double h : {0.3, -6e5}) {
      const auto ids = at::zeros({1, kOften}, at::kLong);
      auto z = at::zeros({1, kOften, 1}, at::kFloat), x = at::zeros({1, kOften, 1}, at::kFloat);
      z[0][0].fill_(h), x[0][0].fill_(1);
      auto g = at::full({1, kOften, 1}, -h / (kOften - 2), at::kFloat);
      g[0][0].fill_(large), g[0][kOften - 1].fill_(-large);
      const nn::EmbeddingGrad lookup{ids, g, nullptr, -1};
      const auto made = h + position_sums(g).item<double>();  // what is summed
      TiedRows rows;
      rows.add({.a_BTD = x, .g_BTP = z, .weight = nullptr, .bias = nullptr, .looked_up_BT = ids});
      const auto squares = gram_squares(x, z, 3);
      EXPECT_GE((squares + rows.lookup_squares(lookup, squares)).item<double>(), made * made * (1 - 1e-9))
          << large << " " << h;
    }
}

// The two terms are added to the sum one after the other: neither may be far longer than what the sample is clipped by.
TEST(TiedNorms, AreAtLeastAShareOfTheTwoApart) {
  const auto ids = at::arange(kV).view({1, kV});
  auto z = at::zeros({1, kV, kV}, at::kDouble), x = at::zeros({1, kV, kD}, at::kDouble);
  z[0][3].copy_(random({kV}, at::kDouble, 1)), x[0][3].copy_(random({kD}, at::kDouble, 2));
  const auto h = at::einsum("btv,btd->bvd", {z, x});
  for (const double left : {0.0, 1e-9, 1e-3, 0.5}) {
    const nn::EmbeddingGrad lookup{ids, h * (left - 1), nullptr, -1};
    TiedRows rows;
    rows.add({.a_BTD = x, .g_BTP = z, .weight = nullptr, .bias = nullptr, .looked_up_BT = ids});
    const auto squares = gram_squares(x, z, 3);
    const auto apart = (1 + (1 - left) * (1 - left)) * true_squares(h);
    expect_near(squares + rows.lookup_squares(lookup, squares),
                at::maximum(left * left * true_squares(h), apart / (kHeaviestTerm * kHeaviestTerm)), 1e-9,
                text("left ", left));
  }
}

TEST(NormFlops, TriangularAndFull) {
  EXPECT_EQ(instantiate_flops(8, 3, 5), 2.0 * 8 * 3 * 5);
  EXPECT_EQ(gram_flops(8, 3, 5, 8), 2.0 * 8 * 8 * (3 + 5));          // one tile: the whole square
  EXPECT_EQ(gram_flops(8, 3, 5, 4), 2.0 * 8 * 8 * (3 + 5) * 3 / 4);  // three tiles of four
  EXPECT_EQ(gram_flops(1024, 3, 5, 1), 1024.0 * 1025 * (3 + 5));     // half, and the diagonal
  EXPECT_LT(gram_flops(4096, 4096, 4096, 128), instantiate_flops(4096, 4096, 4096) * 1.04);  // the break-even, T = D
  EXPECT_GT(gram_flops(4096, 4096, 4096, 4096), instantiate_flops(4096, 4096, 4096) * 1.9);
}

}  // namespace
}  // namespace shade::privacy
