// Layers of a user: what backward makes of a forward that is all it knows.
#include "shade/nn/own_layer.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "shade/nn/batch.h"
#include "shade/nn/gradients.h"
#include "shade/nn/linear.h"
#include "shade/nn/unit.h"
#include "tests/support/fault.h"

namespace shade::nn {
namespace {

using test::fault;

constexpr int64_t kB = 3, kT = 4, kD = 5;

at::Tensor random(at::IntArrayRef shape, uint64_t seed) {
  return at::rand(shape, at::make_generator<at::CPUGeneratorImpl>(seed), at::kDouble) + 0.5;
}

// y = gain_t x^power_d
at::Tensor power(const Tensors& in, const Tensors& w) { return in[0].pow(w[0]) * w[1].unsqueeze(1); }
Tensors power_gradients(const Tensors& in, const at::Tensor& g, const Tensors& w) {
  const auto y = in[0].pow(w[0]);
  return {(g * y * in[0].log() * w[1].unsqueeze(1)).sum(1), (g * y).sum(2)};
}

struct Powers {
  explicit Powers(OwnLayer::SampleGradients by_hand = {}) {
    parameters.begin_unit("only");
    layer.emplace(
        parameters, "power",
        OwnLayer::Options{
            {{"exponent", {kD}, Init::constant(1)}, {"gain", {kT}, Init::constant(1)}}, power, std::move(by_hand)});
    layer->weights()[0]->bind(random({kD}, 1));
    layer->weights()[1]->bind(random({kT}, 2));
  }
  Parameters parameters;
  std::optional<OwnLayer> layer;
};

// Keeps what backward hands over, and each sample's gradients while they can be asked for.
struct Keeper : GradientTap {
  void take(LayerGrad grad) override {
    taken.push_back(std::get<OwnGrad>(grad));
    gradients.push_back(sample_gradients(taken.back()));
  }
  std::vector<OwnGrad> taken;
  std::vector<std::vector<at::Tensor>> gradients;
};

TEST(OwnLayer, GradientsAreAutogradsOwn) {
  Powers own;
  PlainGradients sums;
  own.parameters.wiring.tap = &sums;
  const auto x = random({kB, kT, kD}, 3).set_requires_grad(true), factor = random({kB, kT, kD}, 4);
  const auto y = (*own.layer)({x});
  const auto dx = torch::autograd::grad({(y * factor).sum()}, {x})[0];
  Tensors w;
  for (const auto* weight : own.layer->weights()) w.push_back(weight->value().detach().set_requires_grad(true));
  const auto expected = power({x}, w);
  EXPECT_TRUE(y.equal(expected));
  const auto wanted = torch::autograd::grad({(expected * factor).sum()}, {x, w[0], w[1]});
  EXPECT_TRUE(at::allclose(dx, wanted[0], 1e-12));
  EXPECT_TRUE(at::allclose(sums.of(*own.layer->weights()[0]), wanted[1], 1e-12));
  EXPECT_TRUE(at::allclose(sums.of(*own.layer->weights()[1]), wanted[2], 1e-12));
}

TEST(OwnLayer, SamplesAreToldApartByAutogradOrByHand) {
  for (const bool by_hand : {false, true}) {
    Powers own(by_hand ? OwnLayer::SampleGradients(power_gradients) : OwnLayer::SampleGradients());
    Keeper keeper;
    own.parameters.wiring.tap = &keeper;
    const auto x = random({kB, kT, kD}, 3).set_requires_grad(true), factor = random({kB, kT, kD}, 4);
    torch::autograd::backward({((*own.layer)({x}) * factor).sum()}, {});
    ASSERT_EQ(keeper.gradients.size(), 1u);
    Tensors values;
    for (const auto* weight : own.layer->weights()) values.push_back(weight->value());
    const auto wanted = power_gradients({x.detach()}, factor, values);
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(at::allclose(keeper.gradients[0][i], wanted[i], 1e-12)) << by_hand;
    const auto sums = keeper.taken[0].rule->sums();
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(at::allclose(sums[i], wanted[i].sum(0), 1e-12)) << by_hand;
  }
}

TEST(OwnLayer, FrozenWeightsAreNotHandedOver) {
  for (const bool by_hand : {false, true}) {
    Powers own(by_hand ? OwnLayer::SampleGradients(power_gradients) : OwnLayer::SampleGradients());
    own.layer->weights()[0]->freeze();
    Keeper keeper;
    own.parameters.wiring.tap = &keeper;
    const auto x = random({kB, kT, kD}, 3).set_requires_grad(true);
    torch::autograd::backward({(*own.layer)({x}).sum()}, {});
    ASSERT_EQ(keeper.taken.size(), 1u);
    EXPECT_EQ(keeper.taken[0].rule->weights(), (std::vector<const Weight*>{own.layer->weights()[1]}));
    ASSERT_EQ(keeper.gradients[0].size(), 1u);
    EXPECT_EQ(keeper.gradients[0][0].sizes(), (at::IntArrayRef{kB, kT}));
    own.layer->weights()[1]->freeze();
    torch::autograd::backward({(*own.layer)({x}).sum()}, {});
    EXPECT_EQ(keeper.taken.size(), 1u) << "nothing is trained";
  }
}

TEST(OwnLayer, AnEmptyBatchHasEmptyGradients) {
  Powers own;
  Keeper keeper;
  own.parameters.wiring.tap = &keeper;
  const auto x = at::empty({0, kT, kD}, at::kDouble).set_requires_grad(true);
  torch::autograd::backward({(*own.layer)({x}).sum()}, {});
  ASSERT_EQ(keeper.gradients.size(), 1u);
  EXPECT_EQ(keeper.gradients[0][0].sizes(), (at::IntArrayRef{0, kD}));
}

TEST(OwnLayer, RefusesWhatHasNoSamplesInFront) {
  Powers own([](const Tensors& in, const at::Tensor& g, const Tensors&) { return Tensors{(in[0] * g).sum(1)}; });
  EXPECT_EQ(
      fault([&] { (*own.layer)({random({kB, kT, kD}, 1), random({kT, kD}, 1)}); }),
      "an input of the layer of power.exponent has shape [4, 5]; expected samples first, 3 of them as in the first "
      "input");
  Keeper keeper;
  own.parameters.wiring.tap = &keeper;
  const auto x = random({kB, kT, kD}, 3).set_requires_grad(true);
  EXPECT_NE(fault([&] {
              torch::autograd::backward({(*own.layer)({x}).sum()}, {});
            }).find("sample_gradients of an own layer gave 1 tensors; expected one for each of its 2 weights"),
            std::string::npos);
}

// The unit's first input is data, which needs no gradient: backward reaches the layer all the same, checkpointed or
// not.
TEST(RunUnit, ReachesLayersThatReadData) {
  for (const bool checkpoint : {false, true}) {
    Powers own;
    PlainGradients sums;
    own.parameters.wiring.tap = &sums;
    const auto x = random({kB, kT, kD}, 3);
    const auto body = [&](const Tensors& in) { return (*own.layer)({in[0]}); };
    const auto y = run_unit(own.parameters.wiring, 0, body, {x}, checkpoint);
    EXPECT_TRUE(y.equal((*own.layer)({x})));
    torch::autograd::backward({y.sum()}, {});
    for (const auto* weight : own.layer->weights()) EXPECT_TRUE(sums.has(*weight)) << weight->name();
  }
  EXPECT_NE(fault([] {
              run_unit({}, 0, [](const Tensors& in) { return in[0]; }, {at::ones({2}, at::kLong)});
            }).find("has no input that can carry a gradient"),
            std::string::npos);
}

TEST(Batch, FieldsOfAUserAreRowsToo) {
  Batch batch;
  batch.fields["speed"] = at::arange(6).view({3, 2});
  batch.fields["age"] = at::arange(3);
  batch.records = {5, 6, 7};
  EXPECT_EQ(batch.samples(), 3);
  const auto rows = batch.rows(1, 2);
  EXPECT_EQ(rows.samples(), 2);
  EXPECT_TRUE(rows.field("speed").equal(at::tensor({2, 3, 4, 5}, at::kLong).view({2, 2})));
  EXPECT_TRUE(rows.field("age").equal(at::tensor({1, 2}, at::kLong)));
  EXPECT_EQ(rows.records, (std::vector<int64_t>{6, 7}));
  EXPECT_TRUE(batch.each([](const at::Tensor& x) { return x + 1; }).field("age").equal(at::arange(1, 4)));
  EXPECT_EQ(fault([&] { batch.field("height"); }), "the batch has no field 'height', which the model reads");
  batch.fields["age"] = at::arange(4);
  EXPECT_EQ(fault([&] { batch.rows(0, 1); }), "field 'speed' has 3 samples, its batch 4");
}

}  // namespace
}  // namespace shade::nn
