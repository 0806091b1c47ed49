// `shade verify` on its own feet: what a layer reports is judged by what it doesn't report.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <set>

#include "shade/nn/autograd.h"
#include "shade/nn/function.h"
#include "shade/nn/linear.h"
#include "shade/nn/losses.h"
#include "shade/nn/unit.h"
#include "shade/proof/check_gradients.h"
#include "shade/proof/noise_figures.h"
#include "shade/proof/verify.h"
#include "tests/support/ranks.h"

namespace shade::proof {
namespace {

using nn::Tensors;

constexpr int64_t kD = 5, kT = 3;

enum class Fault { none, activation, output_gradient, half_of_the_positions };

// y = x W^T with a backward of its own, which tells the tap what it is told to tell. `plain`: it knows the operators
// that autograd can differentiate.
struct Told {
  const nn::Weight* weight;
  const nn::Wiring* wiring;
  Fault fault = Fault::none;
  bool plain = true;
};

struct TellingLinear : torch::autograd::Function<TellingLinear> {
  static at::Tensor forward(nn::Context* context, const at::Tensor& x, const Told* told) {
    nn::remember(context, told);
    context->save_for_backward({x});
    return at::linear(x, told->weight->value());
  }
  static Tensors backward(nn::Context* context, Tensors grads) {
    const auto& told = nn::recall<Told>(context);
    auto a = context->get_saved_variables()[0], g = grads[0].contiguous();
    const auto dx = at::matmul(g, told.weight->value());
    if (told.fault == Fault::activation) a = a * 1.001;
    if (told.fault == Fault::output_gradient) g = g + 1e-3 * g.abs();
    if (told.fault == Fault::half_of_the_positions) g = g * (at::arange(kT, g.options()) < 2).view({1, -1, 1});
    told.wiring->take(nn::LinearGrad{a, g, told.weight, nullptr});
    return {dx, {}};
  }
};

class Telling : public models::Model {
 public:
  Telling(Fault fault, bool plain) {
    unit_ = parameters_.begin_unit("all");
    told_ = {&parameters_.add("told.weight", {kD, kD}, nn::Init::normal(0.5)), &parameters_.wiring, fault, plain};
    head_.emplace(parameters_, "head", nn::Linear::Options{.in = kD, .out = 1, .bias = true});
  }
  at::Tensor losses(const nn::Batch& batch) override {
    const auto body = [this](const Tensors& in) {
      const bool plain = told_.plain && nn::plain_operators();
      const auto y = plain ? at::linear(in[0], told_.weight->value()) : TellingLinear::apply(in[0], &told_);
      return (*head_)(y.tanh());
    };
    return nn::squared_losses(nn::run_unit(parameters_.wiring, unit_, body, {batch.field("x")}), batch.field("y"));
  }

 private:
  nn::UnitId unit_;
  Told told_{};
  std::optional<nn::Linear> head_;
};

std::vector<VerifyRow> rows_of(Fault fault, bool plain) {
  GradientCheck check{.label = "telling"};
  check.make_model = [=] { return std::make_unique<Telling>(fault, plain); };
  check.batch = [](const models::Model&, nn::DType dtype, int rank, int64_t) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(rank + 3));
    nn::Batch batch;
    batch.fields["x"] = at::randn({3, kT, kD}, generator).to(nn::scalar_type(dtype));
    batch.fields["y"] = at::randn({3, kT, 1}, generator).to(nn::scalar_type(dtype));
    return batch;
  };
  check.strategies = {shard::Strategy::none};
  std::vector<VerifyRow> out;
  test::run_ranks(1, test::As::threads, [&](comm::World& world) {
    at::set_num_threads(1);
    out = check_gradients(world, check);
  });
  EXPECT_EQ(out.size(), catalog::private_methods().size());
  return out;
}

TEST(PlantedFault, WhatALayerReportsWronglyIsFoundByAutograd) {
  for (const auto fault : {Fault::none, Fault::activation, Fault::output_gradient, Fault::half_of_the_positions})
    for (const auto& row : rows_of(fault, /*plain=*/true)) {
      EXPECT_EQ(row.reference, "autograd");
      EXPECT_EQ(row.pass, fault == Fault::none) << row.json();
      EXPECT_LT(row.max_rel_difference, 1e-8) << "the reference itself is right";
      if (fault != Fault::none) EXPECT_GT(row.max_rel_grad, 1e-5) << row.json();
    }
}

// Nothing but the tap has the gradients of such a layer: they agree with themselves, and only losses show the fault.
TEST(PlantedFault, OfALayerThatAutogradCantSeeIsFoundByDifferences) {
  for (const auto fault : {Fault::none, Fault::activation, Fault::output_gradient, Fault::half_of_the_positions})
    for (const auto& row : rows_of(fault, /*plain=*/false)) {
      EXPECT_EQ(row.reference, "tap");
      EXPECT_EQ(row.pass, fault == Fault::none) << row.json();
      EXPECT_LT(row.max_rel_grad, 1e-5) << row.json();
      EXPECT_EQ(row.max_rel_difference > kDifferenceMark, fault != Fault::none) << row.json();
    }
}

// Every family's gradients by autograd are those of its losses, to the digits that differences have.
TEST(Reference, OfEveryFamilyAgreesWithDifferencesOfItsLosses) {
  at::set_num_threads(1);
  for (const auto& model : SmallModels(7).all()) {
    Reference reference(model.make(), nn::DType::fp64, 1);
    const auto batch = batch_of(reference.model(), model, 1, {nn::DType::fp64, 0, 0});
    const auto off = largest_difference(reference, batch, {.directions = 2, .seed = 5});
    EXPECT_EQ(reference.source(), Source::autograd) << model.label;
    EXPECT_GT(off, 0) << model.label;
    EXPECT_LT(off, 1e-7) << model.label;
  }
}

TEST(Reference, PlainOperatorsEndWithTheirScope) {
  EXPECT_FALSE(nn::plain_operators());
  {
    const nn::PlainOperators outer;
    {
      const nn::PlainOperators inner;
    }
    EXPECT_TRUE(nn::plain_operators());
  }
  EXPECT_FALSE(nn::plain_operators());
}

// By hand: two groups of norms 3 and 4, C = 2.
TEST(ClipRule, IsTheDefinitionOfEachStyle) {
  nn::Parameters parameters;
  parameters.begin_unit("first");
  const auto a = parameters.add("a.weight", {1}, nn::Init::constant(0)).id();
  parameters.begin_unit("second");
  const auto b = parameters.add("b.weight", {1}, nn::Init::constant(0)).id();
  SampleGradient sample;
  sample.parts[a] = at::full({1}, 3.0, at::kDouble);
  sample.parts[b] = at::full({1}, 4.0, at::kDouble);
  const double c = 2 * (1 - 1e-9 - std::sqrt(2.0) * 0x1p-33);
  const auto factors = [&](privacy::ClipStyle style) {
    return ClipRule{.options = {.style = style, .gamma = 0.5}, .clip_norm = 2}.factors(parameters, sample);
  };
  using privacy::ClipStyle;
  for (const auto style : {ClipStyle::flat, ClipStyle::adaptive}) EXPECT_NEAR(factors(style).at(a), c / 5, 1e-12);
  EXPECT_NEAR(factors(ClipStyle::automatic).at(b), c / 5.5, 1e-12);
  for (const auto style : {ClipStyle::per_layer, ClipStyle::group}) {
    EXPECT_NEAR(factors(style).at(a), c / std::sqrt(2.0) / 3, 1e-12);
    EXPECT_NEAR(factors(style).at(b), c / std::sqrt(2.0) / 4, 1e-12);
  }
  sample.parts[b].fill_(std::nan(""));
  EXPECT_EQ(factors(ClipStyle::per_layer).at(a), 0) << "left out as a whole";
}

TEST(ClipRule, SaysTheNoiseOfEachStyle) {
  using privacy::ClipStyle;
  for (const auto style : {ClipStyle::flat, ClipStyle::per_layer, ClipStyle::group, ClipStyle::automatic})
    EXPECT_DOUBLE_EQ((ClipRule{.options = {.style = style}, .clip_norm = 3}.noise_deviation(0.5)), 1.5);
  // sigma 1 and a count of sensitivity 1/2 with noise 1: 1 / sqrt(1 - 1/4).
  const ClipRule adaptive{.options = {.style = ClipStyle::adaptive, .count_sigma = 1}, .clip_norm = 3};
  EXPECT_NEAR(adaptive.noise_deviation(1), 3 / std::sqrt(0.75), 1e-12);
}

TEST(NoiseFigures, TellNoiseFromWhatIsNone) {
  const auto drawn = at::randn({20000}, at::make_generator<at::CPUGeneratorImpl>(uint64_t{3}), at::kDouble);
  const auto plausible = [](const at::Tensor& noise) {
    NoiseFigures figures(2);
    figures.add(noise.narrow(0, 0, 5000));
    figures.add(noise.narrow(0, 5000, 15000));
    return figures.plausible();
  };
  EXPECT_TRUE(plausible(drawn * 2));
  EXPECT_FALSE(plausible(drawn * 2.08));
  EXPECT_FALSE(plausible(drawn));
  EXPECT_FALSE(plausible(drawn * 2 + 0.1));
  EXPECT_FALSE(plausible(drawn.abs() * 2)) << "of one sign";
  EXPECT_FALSE(plausible(drawn * std::nan("")));
}

// What is tried without any option, with one method and strategy for speed.
TEST(Verify, TriesEveryStyleAndTypeUsersAndTheLoaderByDefault) {
  for (const int ranks : {1, 2})
    test::run_ranks(ranks, test::As::threads, [&](comm::World& world) {
      at::set_num_threads(1);
      const auto rows = verify(world, Verification({.methods = {"auto"}, .strategies = {"zero3"}}), {});
      std::set<std::string> seen;
      for (const auto& row : rows) {
        EXPECT_TRUE(row.pass) << row.json();
        EXPECT_EQ(row.reference, "autograd") << row.model;
        EXPECT_NEAR(row.noise_ratio, 1, 0.2) << row.json();
        seen.insert(row.style);
        seen.insert(row.dtype);
        seen.insert(row.model + " " + row.dtype);
        if (row.micro_steps > 1) seen.insert("accumulated");
      }
      for (const auto* wanted :
           {"flat", "per_layer", "group", "automatic", "adaptive", "accumulated", "llama LoRA bf16",
            "llama LoRA, users fp32", "qwen2 tied, mean loss, users bf16", "dit, NaN sample fp32",
            "llama classify, loader fp32", "llama classify, loader bf16", "llama classify, loader, users fp32"})
        EXPECT_TRUE(seen.contains(wanted)) << wanted;
    });
}

// Where no rank is alone with its part of the sum, every method answers for the same figures.
TEST(Verify, EveryMethodIsRightOnOneRank) {
  test::run_ranks(1, test::As::threads, [&](comm::World& world) {
    at::set_num_threads(1);
    const auto rows = verify(world, Verification({.strategies = {"none"}}), {});
    EXPECT_GT(rows.size(), 200u);
    for (const auto& row : rows) {
      EXPECT_TRUE(row.pass) << row.json();
      EXPECT_LE(row.max_share, 1) << row.json();
    }
  });
}

}  // namespace
}  // namespace shade::proof
