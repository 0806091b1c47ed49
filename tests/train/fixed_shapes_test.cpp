// A sample's norm and its clipped gradient don't depend on its place in the micro-batch, nor on the others: to the bit.
#include "shade/train/feed/micro_shapes.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>

#include "shade/nn/launches.h"
#include "tests/support/fault.h"
#include "tests/support/ranks.h"
#include "tests/train/scaled_models.h"

namespace shade::train {
namespace {

using privacy::MethodName;
using test::kInf, test::Summing;

constexpr int64_t kSamples = 5;

TEST(FixedShapes, FillUpWithBlankSamples) {
  nn::Batch batch;
  batch.ids_BT = at::full({2, 3}, 7, at::kLong), batch.mask_BT = at::zeros({2, 3}, at::kLong);
  batch.labels = at::full({2}, 1, at::kLong);
  FixedShapes shapes(4);
  const auto padded = shapes.padded(batch);
  EXPECT_EQ(padded.samples(), 4);
  EXPECT_TRUE(padded.rows(0, 2).ids_BT.equal(batch.ids_BT));
  EXPECT_TRUE(padded.rows(2, 2).ids_BT.equal(at::zeros({2, 3}, at::kLong)));
  EXPECT_TRUE(padded.rows(0, 2).mask_BT.equal(batch.mask_BT));
  EXPECT_TRUE(padded.rows(2, 2).mask_BT.equal(at::ones({2, 3}, at::kLong)));
  EXPECT_TRUE(padded.labels.equal(at::tensor({1, 1, 0, 0}, at::kLong)));
  EXPECT_EQ(shapes.padded(batch.rows(0, 0)).samples(), 4);
}

TEST(FixedShapes, RefuseWhatFollowsTheRecords) {
  nn::Batch batch;
  batch.x_BD = at::zeros({3, 2});
  EXPECT_EQ(test::fault([&] { FixedShapes(2).padded(batch); }),
            "a micro-batch of 3 samples in a private step of 2 at a time; cut it into smaller ones, or raise "
            "StepOptions::micro_shapes");
  FixedShapes shapes(3);
  shapes.padded(batch);
  batch.x_BD = at::zeros({3, 4});
  EXPECT_NE(test::fault([&] { shapes.padded(batch); }).find("pad texts to one length"), std::string::npos);
}

nn::Batch texts(int64_t samples, int64_t length) {
  nn::Batch out;
  out.ids_BT = at::ones({samples, length}, at::kLong), out.mask_BT = at::ones({samples, length}, at::kLong);
  return out;
}

TEST(FixedShapes, BlanksHoldNothing) {
  auto batch = texts(3, 16);
  batch.mask_BT.zero_();
  const auto empty = blank(batch);
  EXPECT_EQ(empty.ids_BT.sizes(), batch.ids_BT.sizes());
  EXPECT_EQ(empty.ids_BT.abs().sum().item<int64_t>(), 0);
  EXPECT_EQ(empty.mask_BT.min().item<int64_t>(), 1);
  EXPECT_EQ(batch.ids_BT.min().item<int64_t>(), 1) << "the batch stays";
}

TEST(FixedShapes, HaveANumberOfSamplesForEachLength) {
  const MicroShapes::Options grid{.samples = 2, .full = {1, 64}, .grid = true, .most = 6};
  FixedShapes shapes{MicroShapes(grid)};
  for (const auto& [length, samples] : {std::pair<int64_t, int64_t>{16, 6}, {32, 4}, {64, 2}, {16, 6}})
    for (const int64_t present : {int64_t{0}, int64_t{1}, samples}) {
      const auto padded = shapes.padded(texts(present, length));
      EXPECT_EQ(padded.ids_BT.sizes(), (at::IntArrayRef{samples, length}));
      EXPECT_EQ(padded.ids_BT.sum().item<int64_t>(), present * length);
    }
  EXPECT_EQ(test::fault([&] { shapes.padded(texts(1, 40)); }),
            "samples of 1 x 40 tokens in a private step; pad them to the next shape of its grid, 1 x 48");
  EXPECT_NE(test::fault([&] { shapes.padded(texts(3, 64)); }).find("a private step of 2 at a time"), std::string::npos);
  EXPECT_NE(test::fault([&] {
              auto other = grid;
              other.grid = false;
              FixedShapes{MicroShapes(other)};
            }).find("set MicroShapes::Options::grid"),
            std::string::npos);
}

// What the others of the micro-batch are.
struct Mates {
  const char* name;
  double loss, input;
  bool silent;  // they add nothing to the sum, which is then the one sample's
  bool absent = false;
};
const Mates kMates[] = {{"blank", 1, 1, true, true},   {"loss 0", 0, 1, true},
                        {"NaN loss", kInf, 1, true},   {"ordinary", 1, 1, false},
                        {"loss 1e20", 1e20, 1, false}, {"input 1e20, NaN loss", std::nan(""), 1e20, true},
                        {"input 1e20", 1, 1e20, false}};

// The one sample at `place`, the others as wanted.
template <class Model>
nn::Batch arranged(const Summing<Model>& summing, int64_t place, const Mates& mates) {
  const auto one = summing.make(1, 7), others = summing.make(kSamples - 1, 1);
  auto batch = others;
  for (int64_t i = 0; i < kSamples - 1; ++i) Model::set_factor(batch, i, mates.loss);
  for (auto* input : {&batch.x_BD, &batch.images_BCHW})
    if (input->defined()) *input = *input * mates.input;
  if (mates.absent) return one;
  // Fields of both, in one order.
  std::vector<at::Tensor> ones;
  one.each([&](const at::Tensor& x) { return ones.push_back(x), x; });
  size_t field = 0;
  return batch.each([&](const at::Tensor& x) {
    return at::cat(
        {x.narrow(0, 0, place), ones[field++].to(x.scalar_type()), x.narrow(0, place, kSamples - 1 - place)});
  });
}

template <class Model>
void expect_no_influence(Summing<Model>& summing, MethodName method, const std::string& name,
                         std::span<const Mates> all = kMates) {
  auto step = summing.step({.dp = method, .max_grad_norm = 0.01, .noise_seed = 1}, kSamples);
  step.method().record_norms(true);
  const auto found = [&](int64_t place, const Mates& mates) {
    const auto sum = summing.sum(step, {arranged(summing, place, mates)});
    std::vector<at::Tensor> squares;
    for (const auto& recorded : step.method().drain_norms()) squares.push_back(recorded.squares_B);
    return std::pair{at::cat(squares)[mates.absent ? 0 : place].template item<double>(), sum};
  };
  const auto wanted = found(0, kMates[0]);
  for (const auto& mates : all)
    for (int64_t place = 0; place < (mates.absent ? 1 : kSamples); ++place) {
      const auto [square, sum] = found(place, mates);
      const auto what = text(name, " ", to_string(method), ", ", mates.name, ", place ", place);
      EXPECT_EQ(square, wanted.first) << what;
      if (mates.silent) {
        EXPECT_TRUE(sum.equal(wanted.second))
            << what << ", off by " << ((sum - wanted.second).norm() / wanted.second.norm()).template item<double>();
      }
    }
}

constexpr int64_t kWide = 4, kLength = 37;  // enough that kernels are blocked and threads share the work

// SHADE_FULL_MATRIX: as wide as that.
TEST(FixedShapes, NoSampleChangesHowAnotherIsRounded) {
  const bool full = std::getenv("SHADE_FULL_MATRIX") != nullptr;
  test::run_ranks(1, test::As::threads, [&](comm::World& world) {
    const auto groups = shard::connect_groups(world, {});
    for (const int threads : full ? std::vector{1, 2, 3} : std::vector{1}) {
      at::set_num_threads(threads);
      test::for_each_model(
          [&](const std::string& name, auto&& model) {
            if (full) model.length = kLength;
            for (const auto type : {nn::DType::bf16, nn::DType::fp32}) {
              Summing summing(groups, model, type);
              const std::vector some{MethodName::materialize, MethodName::ghost, MethodName::flash_bookkeeping};
              for (const auto method : full ? some : std::vector(std::begin(test::kMethods), std::end(test::kMethods)))
                expect_no_influence(summing, method, text(name, " ", to_string(type), ", ", threads, " threads"));
            }
          },
          full ? kWide : 1);
    }
  });
}

// Kernels treat what is left over at the end of a thread's share by itself: a sample must not be rounded otherwise
// there.
TEST(FixedShapes, NorDoesItsPlaceAmongThreads) {
  if (nn::few_launches(at::empty({0}))) GTEST_SKIP() << "what a CPU does";
  const std::span places(std::begin(kMates) + 1, 1);
  test::run_ranks(1, test::As::threads, [&](comm::World& world) {
    const auto groups = shard::connect_groups(world, {});
    for (const int threads : {1, 2, 3}) {
      at::set_num_threads(threads);
      const auto check = [&](const std::string& name, auto&& model) {
        model.length = kLength;
        for (const auto type : {nn::DType::bf16, nn::DType::fp32}) {
          Summing summing(groups, model, type);
          for (const auto method : {MethodName::materialize, MethodName::flash_bookkeeping})
            expect_no_influence(summing, method, text(name, " ", to_string(type), ", ", threads, " threads"), places);
        }
      };
      test::for_each_model(check, kWide);
      for (const auto kernel : {nn::AttentionKernel::flash, nn::AttentionKernel::standard})
        check("odd llama", test::Decoder(
                               models::DecoderConfig{
                                   .hidden = 102, .layers = 2, .heads = 3, .kv_heads = 1, .ffn = 229, .vocab = 257},
                               models::ModelOptions{.task = models::Task::lm, .attention = kernel}));
    }
    at::set_num_threads(1);
  });
}

// So wide that kernels for 1 and for 5 samples round differently here: it must be the blank samples that prevent it.
TEST(FixedShapes, NorDoesItsAbsence) {
  test::run_ranks(1, test::As::threads, [&](comm::World& world) {
    at::set_num_threads(1);
    test::Linear model(models::LinearStackConfig{.width = 1024, .depth = 4}, models::ModelOptions{});
    const auto groups = shard::connect_groups(world, {});
    for (const auto type : {nn::DType::bf16, nn::DType::fp32}) {
      Summing summing(groups, model, type);
      for (const auto method : {MethodName::flash_bookkeeping, MethodName::automatic})
        expect_no_influence(summing, method, text("wide linear ", to_string(type)));
    }
  });
}

struct Plain : models::LinearStack {  // blank samples have a loss
  Plain() : LinearStack({.width = 24, .depth = 3}, {}) {}
  nn::Batch make(int64_t samples, uint64_t seed, at::ScalarType type) const {
    return synthetic({.samples = samples}, seed, type);
  }
};

TEST(FixedShapes, APrivateStepInBf16NeedsThem) {
  test::run_ranks(1, test::As::threads, [&](comm::World& world) {
    at::set_num_threads(1);
    Plain model;
    Summing summing(shard::connect_groups(world, {}), model, nn::DType::bf16);
    const privacy::DpConfig dp{.dp = MethodName::bookkeeping, .max_grad_norm = 0.01, .noise_seed = 1};
    const auto made = [&](int64_t samples) {
      auto out = summing.make(samples, 1);
      for (int64_t i = 0; i < samples; ++i) out.records.push_back(i);
      return out;
    };
    const std::vector batch{made(3)};
    {
      auto step = summing.step(dp, 0);
      EXPECT_NE(test::fault([&] { step.run(batch, 4); }).find("needs StepOptions::micro_shapes"), std::string::npos);
    }
    auto step = summing.step(dp, 4);
    const auto record = step.run(batch, 4);
    EXPECT_EQ(record.samples.samples, 3);
    EXPECT_EQ(record.samples.clipped, 3);
    EXPECT_EQ(record.samples.below, -1.5);
    const auto empty = step.run(std::vector{batch[0].rows(0, 0)}, 4);
    EXPECT_EQ(empty.samples.samples, 0);
    EXPECT_TRUE(std::isnan(empty.loss)) << "the mean of no sample";
    EXPECT_NE(test::fault([&] { step.run(std::vector{made(5)}, 4); }).find("cut it into smaller ones"),
              std::string::npos);
  });
}

}  // namespace
}  // namespace shade::train
