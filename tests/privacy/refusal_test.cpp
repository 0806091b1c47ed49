// What can't be clipped is refused, word by word, before anything is trained with it.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "shade/models/linear_stack.h"
#include "shade/models/registry.h"
#include "shade/nn/linear.h"
#include "shade/nn/losses.h"
#include "shade/nn/unit.h"
#include "shade/optim/config.h"
#include "shade/train/step/step.h"
#include "tests/support/fault.h"

namespace shade::privacy {
namespace {

using test::fault;

constexpr int64_t kB = 3;

struct Refusal : testing::TestWithParam<MethodName> {
  Refusal() : sink(at::kDouble) {
    parameters.begin_unit("only");
    weight = &parameters.add("a.weight", {2, 5}, {});
    positions = &parameters.add("positions", {4, 5}, {});
    nn::bind_all(parameters, at::kFloat, 1);
  }

  // A backward pass that hands over these.
  std::string refused(const std::vector<nn::LayerGrad>& grads, const at::Tensor& losses_B = at::ones({kB})) {
    return fault([&] {
      const auto method = method_of(GetParam())({.parameters = parameters, .sink = sink});
      method->begin(kB);
      for (size_t pass = 0; pass < method->passes().size(); ++pass) {
        method->objective(losses_B, pass);
        for (const auto& grad : grads) method->take(grad);
      }
      method->finish();
    });
  }
  nn::LinearGrad linear(int64_t samples = kB, int64_t positions_of_sample = 4) const {
    return {at::ones({samples, positions_of_sample, 5}), at::ones({samples, positions_of_sample, 2}), weight, nullptr};
  }
  nn::AddedGrad added(int64_t samples = kB) const { return {at::ones({samples, 4, 5}), positions}; }
  nn::EmbeddingGrad lookup() const { return {ids(), at::ones({kB, 4, 5}), weight, -1}; }
  static at::Tensor ids() { return at::tensor({0, 1, 1, 1, 0, 0, 0, 1, 0, 1, 1, 0}, at::kLong).view({kB, 4}); }

  nn::Parameters parameters;
  nn::PlainGradients sink;
  nn::Weight *weight, *positions;
};

TEST_P(Refusal, NothingIsWrongWithThis) {
  EXPECT_EQ(refused({linear(), added()}), "no error");
  auto tied = linear();
  tied.looked_up_BT = ids();
  EXPECT_EQ(refused({tied, added(), lookup()}), "no error");
}

TEST_P(Refusal, AWeightThatNoLayerHandsOver) {
  EXPECT_EQ(refused({linear()}),
            "weight positions is trained, but no layer reported its gradient in this pass, so its part of the norm "
            "is unknown; use it in the forward pass, or freeze it");
  positions->freeze();
  EXPECT_EQ(refused({linear()}), "no error");
  EXPECT_EQ(refused({linear(), added()}), "weight positions is frozen, but its layer reports a gradient");
}

TEST_P(Refusal, AWeightUsedTwice) {
  EXPECT_EQ(refused({linear(), linear(), added()}),
            "weight a.weight was reported from row 0 after 2 rows: either it is used twice in one forward pass (use "
            "a separate weight for each layer, or freeze it), or its layer skips rows");
  EXPECT_EQ(
      refused({linear(), added(), added()}),
      "weight positions is used twice in one forward pass, so the norms of its two gradients don't add up to that "
      "of their sum; use a separate weight for each layer, or freeze it");
  EXPECT_EQ(refused({lookup(), lookup(), added()}),
            "weight a.weight is used twice in one forward pass, so the norms of its two gradients don't add up to that "
            "of their sum; use a separate weight for each layer, or freeze it");
}

TEST_P(Refusal, RowsThatAreMissing) {
  auto half = linear();
  half.g_BTP = half.g_BTP.narrow(2, 0, 1);
  EXPECT_EQ(refused({half, added()}), "weight a.weight has 2 rows, of which its layer reported 1");
}

TEST_P(Refusal, MergedSamples) {
  EXPECT_EQ(refused({linear(1, 3 * 4), added()}),
            "weight a.weight: its layer reports gradients of shape [1, 12, 2], but the batch has 3 samples; a layer "
            "that merges or mixes samples has no gradient per sample. Keep the sample as the first dimension");
  EXPECT_EQ(refused({linear(), added(2 * kB)}),
            "weight positions: its layer reports gradients of shape [6, 4, 5], but the batch has 3 samples; a layer "
            "that merges or mixes samples has no gradient per sample. Keep the sample as the first dimension");
}

// A vector, or one position, that forward broadcasts: the gradient of a sample has more elements than the weight, or
// fewer.
TEST_P(Refusal, AnAddedWeightThatIsBroadcast) {
  for (const int64_t positions_of_sample : {1, 3, 8})
    EXPECT_EQ(refused({linear(), nn::AddedGrad{at::ones({kB, positions_of_sample, 5}), positions}}),
              text("weight positions of shape [4, 5] is added to each sample, but a sample's gradient has shape [",
                   positions_of_sample,
                   ", 5], so it was broadcast over positions; expected one vector for each position (nn::Added)"));
}

TEST_P(Refusal, NoAddedWeightWithALeadingOne) {
  auto* const leading = &parameters.add("leading", {1, 4, 5}, {});
  nn::bind_all(parameters, at::kFloat, 1);
  EXPECT_EQ(refused({linear(), added(), nn::AddedGrad{at::ones({kB, 4, 5}), leading}}), "no error");
}

// Whatever a layer reports: a sum has as many elements as its weight.
TEST_P(Refusal, GradientsOfAnotherSizeThanTheWeight) {
  auto narrow = linear();
  narrow.a_BTD = narrow.a_BTD.narrow(2, 0, 3);
  EXPECT_EQ(refused({narrow, added()}),
            "samples' gradients have 6 elements and the weight they are summed for has 10; a layer must report "
            "gradients of its weight's shape");
}

TEST_P(Refusal, ATiedTableThatDoesNotSayWhatWasLookedUp) {
  EXPECT_EQ(refused({linear(), added(), lookup()}),
            "table a.weight is also the weight of a linear layer that doesn't say which rows were looked up, so the "
            "cross term of its norm is unknown; tell the loss (LmLossOptions::looked_up_BT), or untie them");
}

// The cross term is made from the head's rows: they must come first, and be those of the lookup.
TEST_P(Refusal, ATiedTableWhoseLookupIsNotTheOneAnnounced) {
  auto tied = linear();
  tied.looked_up_BT = ids();
  EXPECT_EQ(refused({lookup(), tied, added()}),
            "weight a.weight is used twice in one forward pass, so the norms of its two gradients don't add up to that "
            "of their sum; use a separate weight for each layer, or freeze it");
  tied.looked_up_BT = ids().flip(1);
  EXPECT_EQ(refused({tied, added(), lookup()}),
            "table a.weight was told to look up other rows (LmLossOptions::looked_up_BT) than it did, so the cross "
            "term of its norm is unknown");
}

// A rule of a user's layer that doesn't keep its word.
struct OwnRule : nn::LayerRule {
  OwnRule(std::vector<const nn::Weight*> w, std::vector<at::Tensor> g, std::vector<at::Tensor> n = {})
      : owned(std::move(w)), gradients(std::move(g)), norms(std::move(n)) {}
  std::vector<const nn::Weight*> weights() const override { return owned; }
  std::vector<at::Tensor> sample_gradients() const override { return gradients; }
  std::vector<at::Tensor> squares() const override { return norms; }
  std::vector<const nn::Weight*> owned;
  std::vector<at::Tensor> gradients, norms;
};

TEST_P(Refusal, OwnLayersWhoseGradientsAreNotPerSample) {
  const auto own = [&](OwnRule rule, int64_t samples = kB) {
    return nn::OwnGrad{at::ones({samples, 7}), std::make_shared<OwnRule>(std::move(rule))};
  };
  const auto good = at::ones({kB, 4, 5});
  EXPECT_EQ(refused({linear(), own({{positions}, {good}})}), "no error");
  EXPECT_EQ(
      refused({linear(), own({{positions}, {good.sum(0)}})}),
      "weight positions: the rule of its layer gave a gradient of shape [4, 5]; expected [3, 4, 5], samples first");
  EXPECT_EQ(refused({linear(), own({{positions}, {}})}),
            "the rule of an own layer gave 0 gradients for 1 weights, the first of them positions; expected one for "
            "each");
  EXPECT_EQ(refused({linear(), own({{positions}, {good}}, 1)}),
            "weight positions: its layer reports gradients of shape [1, 7], but the batch has 3 samples; a layer "
            "that merges or mixes samples has no gradient per sample. Keep the sample as the first dimension");
  EXPECT_EQ(refused({linear(), added(), own({{}, {}})}),
            "an own layer reported a gradient without a rule, or of no weight; report only trained weights");
  EXPECT_EQ(refused({linear(), added(), nn::OwnGrad{at::ones({kB, 7}), nullptr}}),
            "an own layer reported a gradient without a rule, or of no weight; report only trained weights");
  EXPECT_NE(refused({linear(), own({{positions, positions}, {good, good}})}).find("used twice in one forward pass"),
            std::string::npos);
  if (row_of(GetParam()).passes == 2) {
    EXPECT_EQ(refused({linear(), own({{positions}, {good}, {at::ones({1})}})}),
              "weight positions: the rule of its layer gave norms of shape [1] for 3 samples");
  }
}

// One coefficient weighs a layer: its weights are clipped together.
TEST_P(Refusal, ALayerWhoseWeightsAreClippedApart) {
  const auto rule = std::make_shared<OwnRule>(std::vector<const nn::Weight*>{weight, positions},
                                              std::vector{at::ones({kB, 2, 5}), at::ones({kB, 4, 5})});
  const auto in_style = [&](ClipStyle style) {
    return fault([&] {
      const auto method = method_of(GetParam(), {.style = style})({.parameters = parameters, .sink = sink});
      method->begin(kB);
      method->objective(at::ones({kB}), 0);
      method->take(nn::OwnGrad{at::ones({kB, 7}), rule});
    });
  };
  EXPECT_EQ(in_style(ClipStyle::group), "no error");
  EXPECT_EQ(in_style(ClipStyle::per_layer),
            "weights a.weight and positions of one layer are clipped in different groups, so no one coefficient fits "
            "both; give them the same unit and the same name up to the last dot");
}

TEST_P(Refusal, LossesThatAreNotPerSample) {
  EXPECT_EQ(refused({}, at::ones({})),
            "the model gave losses of shape [] for 3 samples; private training needs one loss per sample");
  EXPECT_EQ(refused({}, at::ones({kB, 4})),
            "the model gave losses of shape [3, 4] for 3 samples; private training needs one loss per sample");
}

INSTANTIATE_TEST_SUITE_P(Methods, Refusal, testing::ValuesIn(catalog::private_methods()),
                         [](const auto& method) { return std::string(to_string(method.param)); });

// A model whose loss subtracts the batch's mean.
struct BatchStatistics : models::LinearStack {
  BatchStatistics() : LinearStack({.width = 2, .depth = 1}, {}) {}
  at::Tensor losses(const nn::Batch& batch) override {
    const auto mean = batch.samples() == 0 ? batch.x_BD : batch.x_BD.mean(0, true);
    return LinearStack::losses(batch) * 0 + (batch.x_BD - mean).square().sum(1);
  }
};

struct Alone {  // one process
  Alone() : world(comm::World::simulated(0, 1)), runtime(model.parameters(), shard::connect_groups(world, {}), {}) {
    runtime.initialise(1);
  }
  std::string first_step(MethodName dp, std::vector<at::Tensor> inputs) {
    return fault([&] {
      train::Step step(model, runtime, *optimizer, optim::make_schedule({}),
                       train::step_options({.dp = dp}, {.rehearsal = true}));
      for (const auto& x : inputs) {
        nn::Batch batch;
        batch.x_BD = x, batch.y_BD = at::zeros_like(x);
        step.run(std::vector{batch}, 2);
      }
    });
  }
  comm::World world;
  BatchStatistics model;
  shard::Runtime runtime;
  std::unique_ptr<optim::Optimizer> optimizer = optim::make_optimizer({});
};

constexpr const char* kMixes =
    "the loss of a sample is 0 alone and 1 with others in its batch: a layer mixes samples (batch statistics?), so no "
    "gradient belongs to one sample. Private training needs layers that treat samples one by one";

TEST(Steps, RefuseAModelThatMixesSamples) {
  Alone alone;
  const auto pair = at::tensor({0.0f, 0.0f, 2.0f, 0.0f}).view({2, 2});
  EXPECT_EQ(alone.first_step(MethodName::bookkeeping, {pair}), kMixes);
  EXPECT_EQ(alone.first_step(MethodName::ghost, {pair}), kMixes);
  EXPECT_EQ(alone.first_step(MethodName::none, {pair}), "no error");
  EXPECT_EQ(alone.first_step(MethodName::streaming, {pair}), "no error") << "a sample at a time mixes nothing";
}

// Batches that show nothing (too small, not finite) don't count as proof.
TEST(Steps, RefuseItInTheFirstBatchThatShowsIt) {
  Alone alone;
  const auto pair = at::tensor({0.0f, 0.0f, 2.0f, 0.0f}).view({2, 2});
  for (const auto& harmless : {pair.narrow(0, 0, 1), pair.narrow(0, 0, 0), pair * std::nanf("")})
    EXPECT_EQ(alone.first_step(MethodName::bookkeeping, {harmless, pair}), kMixes) << harmless;
}

TEST(Steps, RefuseToClipTheSumAsWell) {
  Alone alone;
  EXPECT_EQ(fault([&] {
              const train::Step step(alone.model, alone.runtime, *alone.optimizer, optim::make_schedule({}),
                                     train::step_options({.dp = MethodName::ghost}, {.grad_clip = 1}));
            }),
            "a private run clips every sample (--max-grad-norm); clipping their sum as well (--grad-clip) is for runs "
            "that are not private");
}

}  // namespace
}  // namespace shade::privacy
