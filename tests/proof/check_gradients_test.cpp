// The public check of private gradients, with a model, a layer and a method that are none of ours.
#include "shade/proof/check_gradients.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "shade/models/registry.h"
#include "shade/nn/linear.h"
#include "shade/nn/losses.h"
#include "shade/nn/own_layer.h"
#include "shade/nn/unit.h"
#include "tests/support/fault.h"
#include "tests/support/ranks.h"
#include "tests/train/own_method.h"

namespace shade::proof {
namespace {

using nn::Tensors;
using test::fault;

constexpr int64_t kD = 5;

enum class Kind { right, checkpointed, by_hand, wrong_by_hand, mixes_samples };

// A user's model: y = w . (gain x^exponent) + b, from fields of its own.
class Curve : public models::Model {
 public:
  explicit Curve(Kind kind) : kind_(kind) {
    curve_unit_ = parameters_.begin_unit("curve");
    curve_.emplace(
        parameters_, "curve",
        nn::OwnLayer::Options{{{"exponent", {kD}, nn::Init::constant(1)}, {"gain", {1}, nn::Init::constant(1)}},
                              [this](const Tensors& in, const Tensors& w) { return forward(in, w); },
                              by_hand()});
    head_unit_ = parameters_.begin_unit("head");
    head_.emplace(parameters_, "head", nn::Linear::Options{.in = kD, .out = 1, .bias = true});
  }

  at::Tensor losses(const nn::Batch& batch) override {
    const auto curve = [this](const Tensors& in) { return (*curve_)(in); };
    const auto head = [this](const Tensors& in) { return (*head_)(in[0]); };
    const auto x =
        nn::run_unit(parameters_.wiring, curve_unit_, curve, {batch.field("x")}, kind_ == Kind::checkpointed);
    return nn::squared_losses(nn::run_unit(parameters_.wiring, head_unit_, head, {x}), batch.field("y"));
  }

 private:
  at::Tensor forward(const Tensors& in, const Tensors& w) const {
    const auto x = in[0].pow(w[0]) * w[1];
    return kind_ == Kind::mixes_samples ? x - x.mean(0, true) : x;
  }
  nn::OwnLayer::SampleGradients by_hand() const {
    if (kind_ != Kind::by_hand && kind_ != Kind::wrong_by_hand) return {};
    return [wrong = kind_ == Kind::wrong_by_hand](const Tensors& in, const at::Tensor& g, const Tensors& w) {
      const auto x = in[0].pow(w[0]);
      const auto of_exponent = g * x * in[0].log();
      return Tensors{wrong ? of_exponent : of_exponent * w[1], (g * x).sum(1, true)};
    };
  }

  Kind kind_;
  nn::UnitId curve_unit_, head_unit_;
  std::optional<nn::OwnLayer> curve_;
  std::optional<nn::Linear> head_;
};

GradientCheck check_of(Kind kind) {
  GradientCheck check{.label = "curve"};
  check.make_model = [kind] { return std::make_unique<Curve>(kind); };
  check.batch = [](const models::Model&, nn::DType dtype, int rank, int64_t micro_step) {
    static constexpr int64_t kSizes[] = {4, 1, 0, 3};
    auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(10 * rank + micro_step));
    const auto samples = kSizes[(rank + micro_step) % 4];
    nn::Batch batch;
    batch.fields["x"] = (at::rand({samples, kD}, generator) * 3 + 0.2).to(nn::scalar_type(dtype));
    batch.fields["y"] = at::randn({samples, 1}, generator).to(nn::scalar_type(dtype));
    return batch;
  };
  return check;
}

void run(int ranks, const std::function<void(comm::World&)>& body) {
  test::run_ranks(ranks, test::As::threads, [&](comm::World& world) {
    at::set_num_threads(1);  // small tensors, and a thread for every rank
    body(world);
  });
}

TEST(CheckGradients, EveryMethodAndStrategyIsRightForAnOwnLayer) {
  for (const int ranks : {1, 2})
    run(ranks, [&](comm::World& world) {
      std::vector<GradientCheck> checks;
      for (const auto kind : {Kind::right, Kind::checkpointed, Kind::by_hand}) checks.push_back(check_of(kind));
      checks[0].dtypes = {nn::DType::fp32, nn::DType::fp64, nn::DType::bf16};
      checks[0].micro_steps = {1, 3};
      checks[1].clip.style = privacy::ClipStyle::per_layer;
      checks[2].clip.style = privacy::ClipStyle::group;
      const auto rows = check_gradients(world, checks);
      EXPECT_EQ(rows.size(), (3u * 2 + 1 + 1) * 7 * (ranks == 1 ? 4 : 3));
      for (const auto& row : rows) EXPECT_TRUE(row.pass) << row.json();
    });
}

TEST(CheckGradients, FindsGradientsThatAreWrong) {
  run(1, [&](comm::World& world) {
    auto check = check_of(Kind::wrong_by_hand);
    check.strategies = {shard::Strategy::none};
    const auto rows = check_gradients(world, check);
    EXPECT_EQ(rows.size(), 7u);
    for (const auto& row : rows) {
      EXPECT_FALSE(row.pass) << row.json();
      EXPECT_GT(row.max_rel_grad, 1e-3) << row.json();
    }
  });
}

// Total norms before and after any reduction over ranks, of all ranks, in the order of ranks, on every rank.
TEST(CheckGradients, SaysTheNormsOfEverySample) {
  run(2, [&](comm::World& world) {
    auto check = check_of(Kind::right);
    check.verbose = true;
    check.strategies = {shard::Strategy::zero3};
    check.methods = checked_methods(std::vector{privacy::MethodName::ghost}, {});
    const auto rows = check_gradients(world, check);
    ASSERT_EQ(rows.size(), 1u);
    std::vector<std::string> totals;
    for (const auto& line : rows[0].details) {
      if (line.find(" total norm ") == std::string::npos) continue;
      int rank = -1, sample = -1;
      double before = 0, after = 0, expected = 0;
      ASSERT_EQ(std::sscanf(line.c_str(),
                            "rank %d sample %d total norm %lf before reduction, %lf after reduction, expected %lf",
                            &rank, &sample, &before, &after, &expected),
                5)
          << line;
      EXPECT_GT(before, 0) << line;
      EXPECT_NEAR(after, before, 1e-5 * before) << line;
      EXPECT_NEAR(expected, before, 1e-4 * before) << line;
      totals.push_back(text(rank, ".", sample));
    }
    EXPECT_EQ(totals, (std::vector<std::string>{"0.0", "0.1", "0.2", "0.3", "1.0"})) << "4 and 1 samples";
    EXPECT_EQ(rows[0].details.size(), 5u * (4 + 1)) << "four weights, and the total";
  });
}

TEST(CheckGradients, RefusesAModelThatMixesSamples) {
  run(1, [&](comm::World& world) {
    auto check = check_of(Kind::mixes_samples);
    check.strategies = {shard::Strategy::none};
    check.methods = checked_methods(std::vector{privacy::MethodName::automatic}, {});
    EXPECT_NE(fault([&] { check_gradients(world, check); }).find("a layer mixes samples (batch statistics?)"),
              std::string::npos);
  });
}

TEST(CheckGradients, JudgesAMethodFromOutside) {
  for (const double factor : {1.0, 1.01})
    run(2, [&](comm::World& world) {
      std::vector<GradientCheck> checks{check_of(Kind::right), {.label = "tied"}};
      checks[1].make_model = [] { return models::make_model("qwen2-nano", {}, {.task = models::Task::lm}); };
      checks[1].batch = [](const models::Model& model, nn::DType, int rank, int64_t) {
        return model.synthetic({.samples = 2, .seq_length = 6}, static_cast<uint64_t>(rank), at::kFloat);
      };
      for (auto& check : checks) check.methods = {{"own", train::own_method({.factor = factor})}};
      const auto rows = check_gradients(world, checks);
      EXPECT_EQ(rows.size(), 2 * 3u);
      for (const auto& row : rows) {
        EXPECT_EQ(row.pass, factor == 1) << row.json();
        EXPECT_EQ(row.method, "own");
      }
    });
}

}  // namespace
}  // namespace shade::proof
