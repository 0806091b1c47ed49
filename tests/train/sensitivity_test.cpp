// How far one sample can move the sum: |sum(D + x) - sum(D)| <= C, whatever x is, without noise and without tolerance.
// A sample is a record, or a user with several.
//
// Types x methods x styles x models x kinds of x, over random batches. SHADE_FULL_MATRIX: 14 times as many batches.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/ranks.h"
#include "tests/train/scaled_models.h"

namespace shade::train {
namespace {

using privacy::ClipStyle, privacy::MethodName;
using test::kInf, test::Linear, test::Summing;

constexpr double kNorm = 0.7;
constexpr int64_t kOthers = 3;

const ClipStyle kStyles[] = {ClipStyle::flat, ClipStyle::per_layer, ClipStyle::group, ClipStyle::automatic,
                             ClipStyle::adaptive};

// What is done to the one sample: its loss is scaled (and so its gradient), or its input.
struct Kind {
  double loss = 1, input = 1;
  bool finite = true;  // false: must contribute nothing
  std::string name() const { return text("loss x ", loss, ", input x ", input); }
};
const std::vector<Kind> kKinds{{1e-20},
                               {1e-12},
                               {1e-6},
                               {1e-3},
                               {1},
                               {1e3},
                               {1e6},
                               {1e12},
                               {1e20},
                               {-1e6},
                               {0},
                               {std::nan(""), 1, false},
                               {kInf, 1, false},
                               {1, 1e-20},
                               {1, 1e20}};

template <class Model>
class Sensitivity {
 public:
  Sensitivity(const shard::Groups& groups, std::string name, Model& model, nn::DType dtype, int64_t rows = 1)
      : name_(std::move(name)), summing_(groups, model, dtype), rows_(rows) {}

  int64_t run(int64_t batches, std::span<const ClipStyle> styles = kStyles) {
    int64_t cases = 0;
    for (const auto method : test::kMethods) {
      most_ = 0;
      for (const auto style : styles) {
        auto step = summing_.step(
            {.dp = method, .clip = {.style = style, .tile_size = 2}, .max_grad_norm = kNorm, .noise_seed = 1},
            kOthers + 1);
        for (int64_t b = 0; b < batches; ++b) {
          const auto seed = static_cast<uint64_t>(1000 * cases + b);
          const auto all = make(seed);
          const auto what =
              text(name_, " ", to_string(summing_.dtype), " ", to_string(method), " ", to_string(style), " batch ", b);
          // The others alone; and with a sample that is left out.
          const auto without = summing_.sum(step, {all.rows(0, kOthers)});
          auto bad = all;
          Model::set_factor(bad, kOthers * rows_, -kInf);
          const auto beside = summing_.sum(step, {bad});
          EXPECT_TRUE(beside.equal(without)) << what << ": a sample that is left out moves no other";
          step.method().drain_counts();
          for (const auto& kind : kKinds) {
            check(step, all, kind, {without, beside}, what);
            ++cases;
          }
        }
      }
      std::printf("%s %s %s: at most %.9f of the norm\n", name_.c_str(), to_string(summing_.dtype).c_str(),
                  to_string(method).c_str(), most_);  // docs/privacy.md has the largest
    }
    return cases;
  }

 private:
  // The last sample has all of its rows, the others some; what is in their blank rows must not count.
  nn::Batch make(uint64_t seed) const {
    auto out = summing_.make((kOthers + 1) * rows_, seed);
    if (rows_ == 1) return out;
    out.rows_per_sample = rows_;
    const auto present = at::arange(1, kOthers + 2).clamp_max(rows_);
    out.present_B = (at::arange(rows_) < present.unsqueeze(1)).to(at::kLong).view(-1);
    return out;
  }

  struct Others {
    at::Tensor alone, beside_bad;
  };
  void check(Step& step, const nn::Batch& all, const Kind& kind, const Others& others, const std::string& what) {
    auto batch = all;
    const auto first = kOthers * rows_;  // of the one sample's rows; one bad record is enough to leave it out
    for (int64_t row = 0; row < (kind.finite ? rows_ : 1); ++row) Model::set_factor(batch, first + row, kind.loss);
    for (auto* input : {&batch.x_BD, &batch.images_BCHW}) {
      if (!input->defined() || kind.input == 1) continue;
      *input = input->clone();
      input->narrow(0, first, rows_).mul_(kind.input);
    }
    const auto with = summing_.sum(step, {batch});
    const auto counts = step.method().drain_counts();
    const auto gap = (with - others.alone).norm().template item<double>();
    EXPECT_LE(gap, kNorm) << what << ", " << kind.name();
    most_ = std::max(most_, gap / kNorm);
    EXPECT_EQ(counts.samples, kOthers + 1);
    const bool one_group = step.method().clipper()->flat();
    if (!kind.finite) {
      EXPECT_EQ(counts.not_finite, 1) << what << ", " << kind.name();
    }
    if (!kind.finite || (counts.not_finite == 1 && one_group)) {
      EXPECT_TRUE(with.equal(others.beside_bad)) << what << ", " << kind.name() << ": not finite, and still in the sum";
    }
    if (kind.loss == 1 && kind.input == 1) {
      EXPECT_GT(gap, 1e-3) << what << ": an ordinary sample must be seen";
    }
  }

  std::string name_;
  Summing<Model> summing_;
  int64_t rows_;
  double most_ = 0;
};

class OneSample : public testing::TestWithParam<nn::DType> {};
INSTANTIATE_TEST_SUITE_P(Types, OneSample, testing::Values(nn::DType::fp32, nn::DType::bf16, nn::DType::fp64),
                         [](const auto& test) { return to_string(test.param); });

TEST_P(OneSample, MovesTheSumByAtMostTheNorm) {
  const int64_t batches = std::getenv("SHADE_FULL_MATRIX") != nullptr ? 14 : 1;
  test::run_ranks(1, test::As::threads, [&](comm::World& world) {
    at::set_num_threads(1);  // tensors of a few hundred elements
    const auto groups = shard::connect_groups(world, {});
    int64_t cases = 0;
    test::for_each_model([&](const std::string& name, auto&& model) {
      cases += Sensitivity(groups, name, model, GetParam()).run(batches);
    });
    EXPECT_EQ(cases, 2100 * batches);
  });
}

constexpr ClipStyle kStylesOfUsers[] = {ClipStyle::flat, ClipStyle::per_layer};

// A user with all records, whoever the others are and however many records they have.
TEST_P(OneSample, ThatIsAUserMovesTheSumByAtMostTheNorm) {
  const int64_t batches = std::getenv("SHADE_FULL_MATRIX") != nullptr ? 14 : 1;
  test::run_ranks(1, test::As::threads, [&](comm::World& world) {
    at::set_num_threads(1);
    const auto groups = shard::connect_groups(world, {});
    int64_t cases = 0;
    test::for_each_model([&](const std::string& name, auto&& model) {
      cases += Sensitivity(groups, name + ", users", model, GetParam(), 3).run(batches, kStylesOfUsers);
    });
    EXPECT_EQ(cases, 840 * batches);
  });
}

// Many copies of one record, and one more: all of them clipped to the same vector, so that nothing hides a rounding.
TEST_P(OneSample, MovesASumOfManyEqualOnesByAtMostTheNorm) {
  test::run_ranks(1, test::As::threads, [&](comm::World& world) {
    at::set_num_threads(1);
    Linear model(models::LinearStackConfig{.width = 24, .depth = 3}, models::ModelOptions{});
    Summing summing(shard::connect_groups(world, {}), model, GetParam());
    constexpr double kSmall = 1e-3;
    for (const int64_t micro_batch : {16, 2048})
      for (const int64_t many : {64, 1024}) {
        auto one = summing.make(1, 1);
        const auto all = one.each([&](const at::Tensor& x) {
          auto times = std::vector<int64_t>(static_cast<size_t>(x.dim()), 1);
          times[0] = many + 1;
          return x.repeat(times);
        });
        const auto cut = [&](int64_t samples) {
          std::vector<nn::Batch> out;
          for (int64_t at = 0; at < samples; at += micro_batch)
            out.push_back(all.rows(at, std::min(micro_batch, samples - at)));
          return out;
        };
        double most = 0;
        for (const auto method : test::kMethods) {
          auto step = summing.step({.dp = method, .max_grad_norm = kSmall, .noise_seed = 1}, micro_batch);
          const auto moved = summing.sum(step, cut(many + 1)) - summing.sum(step, cut(many));
          const auto share = moved.norm().item<double>() / kSmall;
          EXPECT_LE(share, 1) << to_string(method) << ", " << many << " in micro-batches of " << micro_batch;
          EXPECT_GT(share, 0.99) << to_string(method) << ": must be clipped";
          most = std::max(most, share);
        }
        std::printf("%s: one more of %ld, %ld at a time, moves the sum by up to %.8f C\n",
                    to_string(GetParam()).c_str(), static_cast<long>(many), static_cast<long>(micro_batch), most);
      }
  });
}

// Factors in bf16, the sum in fp32. Of 64 equal samples the sum is so long that its neighbours in bf16 are further away
// than a small sample: rounded, it would stay or jump.
TEST(NarrowFactors, MoveAWideSumByThemselves) {
  test::run_ranks(1, test::As::threads, [&](comm::World& world) {
    at::set_num_threads(1);
    Linear model(models::LinearStackConfig{.width = 24, .depth = 3}, models::ModelOptions{});
    Summing summing(shard::connect_groups(world, {}), model, nn::DType::bf16);
    constexpr int64_t kMany = 64;
    auto all = summing.make(kMany + 1, 1);
    all.x_BD = at::cat({all.x_BD.narrow(0, 0, 1).repeat({kMany, 1}), all.x_BD.narrow(0, kMany, 1)});
    all.y_BD = at::cat({all.y_BD.narrow(0, 0, 1).repeat({kMany, 1}), all.y_BD.narrow(0, kMany, 1)});
    for (const auto method : test::kMethods) {
      auto step =
          summing.step({.dp = method, .clip = {.tile_size = 2}, .max_grad_norm = 1e-3, .noise_seed = 1}, kMany + 1);
      for (const double factor : {1e-4, 1e-3, 1e-2, 1.0}) {
        Linear::set_factor(all, kMany, factor);
        const auto alone = summing.sum(step, {all.rows(kMany, 1)});
        const auto moved = summing.sum(step, {all}) - summing.sum(step, {all.rows(0, kMany)});
        const auto size = alone.norm().item<double>();
        EXPECT_GT(size, 0);
        EXPECT_LE((moved - alone).norm().item<double>(), 1e-3 * size + 1e-9) << to_string(method) << " x " << factor;
      }
    }
  });
}

}  // namespace
}  // namespace shade::train
