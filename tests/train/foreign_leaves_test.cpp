// What requires a gradient and is no weight of the model: a private step refuses it before any gradient of it exists.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <functional>

#include "shade/base/error.h"
#include "shade/models/linear_stack.h"
#include "shade/optim/config.h"
#include "shade/train/step/step.h"
#include "tests/support/fault.h"
#include "tests/support/ranks.h"

namespace shade::train {
namespace {

using test::fault;
using More = std::function<at::Tensor(const at::Tensor& x_BD)>;  // added to each sample's loss, [B]

struct Extended : models::LinearStack {
  explicit Extended(More m) : LinearStack({.width = 4, .depth = 2}, {}), more(std::move(m)) {}
  at::Tensor losses(const nn::Batch& batch) override { return LinearStack::losses(batch) + more(batch.x_BD); }
  More more;
};

struct OneModel {
  explicit OneModel(More more)
      : model(std::move(more)),
        runtime(model.parameters(), shard::connect_groups(world, shard::policy_of({}, world.size())), {}) {
    runtime.initialise(1);
  }
  Step step(bool is_private, privacy::MethodName method = privacy::MethodName::bookkeeping) {
    privacy::DpConfig dp{.dp = is_private ? method : privacy::MethodName::none, .sigma = is_private ? 1.0 : 0.0};
    return Step(model, runtime, *optimizer, optim::make_schedule({}), step_options(dp, {.micro_shapes = 4}));
  }

  comm::World world = comm::World::simulated(0, 1);
  Extended model;
  shard::Runtime runtime;
  std::unique_ptr<optim::Optimizer> optimizer = optim::make_optimizer({});
};

std::vector<nn::Batch> two_samples() {
  nn::Batch out;
  out.x_BD = at::arange(8, at::kFloat).view({2, 4}).div(10).sin();
  out.y_BD = at::ones({2, 4});
  out.records = {0, 1};
  return {out};
}

std::string said_of(More more, bool is_private = true) {
  OneModel run(std::move(more));
  auto step = run.step(is_private);
  return fault([&] { step.run(two_samples(), 2); });
}

const char* kRefusal = "would be neither clipped nor noised";
bool is_refusal(const std::string& said) { return said.find(kRefusal) != said.npos; }

TEST(ForeignLeaves, OfTorchNnAreRefusedBeforeTheyHaveAGradient) {
  torch::nn::Linear head(4, 1);
  const auto more = [&](const at::Tensor& x_BD) { return head(x_BD).squeeze(1); };
  const auto said = said_of(more);
  EXPECT_TRUE(is_refusal(said)) << said;
  EXPECT_NE(said.find("a tensor [1"), said.npos) << "by its shape: " << said;
  for (const auto& weight : head->parameters()) EXPECT_FALSE(weight.grad().defined());
  EXPECT_EQ(said_of(more, /*is_private=*/false), "no error") << "a run that is not private may do so";
  EXPECT_TRUE(head->weight.grad().defined());
  for (auto& weight : head->parameters()) weight.requires_grad_(false);
  EXPECT_EQ(said_of(more), "no error") << "frozen";
}

TEST(ForeignLeaves, OfTorchNnAreRefusedByTheLayerThatTakesTheirPlace) {
  torch::nn::Linear linear(4, 1);
  torch::nn::Embedding embedding(8, 1);
  torch::nn::LayerNorm norm(torch::nn::LayerNormOptions({4}));
  torch::nn::Conv2d convolution(1, 1, 2);
  const auto names = [](const std::string& said, const char* layer) {
    return is_refusal(said) && said.find(text("(", layer, " in place of torch's, or nn::OwnLayer")) != said.npos;
  };
  EXPECT_TRUE(names(said_of([&](const at::Tensor& x_BD) { return linear(x_BD).squeeze(1); }), "nn::Linear"));
  linear->bias.requires_grad_(false);
  EXPECT_TRUE(names(said_of([&](const at::Tensor& x_BD) { return linear(x_BD).squeeze(1); }), "nn::Linear"))
      << "of the weight, which is transposed";
  EXPECT_TRUE(
      names(said_of([&](const at::Tensor& x_BD) { return embedding(x_BD.select(1, 0).to(at::kLong)).squeeze(1); }),
            "nn::Embedding"));
  EXPECT_TRUE(names(said_of([&](const at::Tensor& x_BD) { return norm(x_BD).sum(1); }), "nn::LayerNorm"));
  EXPECT_TRUE(names(said_of([&](const at::Tensor& x_BD) { return convolution(x_BD.view({-1, 1, 2, 2})).flatten(); }),
                    "nn::PatchEmbedding"));
}

TEST(ForeignLeaves, AreTensorsMadeByHandHoweverDeep) {
  const auto leaf = at::ones({4}).set_requires_grad(true);
  EXPECT_TRUE(is_refusal(said_of([&](const at::Tensor& x_BD) { return (x_BD * leaf.mul(2).exp()).tanh().sum(1); })));
  EXPECT_TRUE(is_refusal(said_of([&](const at::Tensor& x_BD) { return at::zeros({x_BD.size(0)}) + leaf.sum(); })))
      << "of a loss that no layer is in";
  EXPECT_FALSE(leaf.grad().defined());
  EXPECT_EQ(said_of([&](const at::Tensor& x_BD) { return (x_BD * leaf.detach()).sum(1); }), "no error");
  const auto buffer = at::ones({4});
  EXPECT_EQ(said_of([&](const at::Tensor& x_BD) { return (x_BD * buffer).sum(1); }), "no error");
}

TEST(ForeignLeaves, AreLookedForInEveryStepOfEveryMethod) {
  for (const auto method : catalog::private_methods()) {
    const auto leaf = at::ones({4}).set_requires_grad(true);
    bool used = false;
    OneModel run([&](const at::Tensor& x_BD) { return used ? (x_BD * leaf).sum(1) : at::zeros({x_BD.size(0)}); });
    auto step = run.step(true, method);
    EXPECT_EQ(fault([&] { step.run(two_samples(), 2); }), "no error") << to_string(method);
    used = true;
    EXPECT_TRUE(is_refusal(fault([&] { step.run(two_samples(), 2); }))) << to_string(method);
    EXPECT_FALSE(leaf.grad().defined()) << to_string(method);
  }
}

// What layers without an input that needs a gradient hang on is of the whole process: it must never have one.
TEST(ForeignLeaves, TheAnchorCollectsNothing) {
  for (const bool is_private : {false, true}) {
    OneModel run([](const at::Tensor& x_BD) { return at::zeros({x_BD.size(0)}); });
    auto step = run.step(is_private);
    EXPECT_EQ(fault([&] { step.run(two_samples(), 2); }), "no error");
    EXPECT_FALSE(nn::anchor().grad().defined());
  }
}

TEST(ForeignLeaves, GradientsThatAreRetainedAreRefused) {
  std::vector<at::Tensor> kept;
  const auto more = [&](const at::Tensor& x_BD) {
    kept.push_back(nn::hang(x_BD, nn::anchor()) * 2);
    if (kept.back().requires_grad()) kept.back().retain_grad();  // not in the trial without a graph
    return kept.back().sum(1);
  };
  EXPECT_NE(said_of(more).find("keeps its gradient"), std::string::npos);
  for (const auto& tensor : kept)
    if (tensor.requires_grad()) EXPECT_FALSE(tensor.grad().defined());
}

// A block that is computed again in backward hides its graph; its leaves collect nothing.
TEST(ForeignLeaves, OfACheckpointedBlockCollectNothing) {
  const auto leaf = at::ones({4}).set_requires_grad(true);
  const auto more = [&](const at::Tensor& x_BD) {
    const auto in = x_BD + nn::anchor();
    return nn::checkpointed([&](const nn::Tensors& inputs) { return inputs[0] * leaf; }, {in}).sum(1);
  };
  const auto said = said_of(more);
  EXPECT_TRUE(said == "no error" || is_refusal(said)) << said;
  EXPECT_FALSE(leaf.grad().defined());
}

// Layers of another model report to its own step: theirs is no gradient that anybody may read.
TEST(ForeignLeaves, WeightsOfAnotherModelGetNoGradient) {
  OneModel other([](const at::Tensor& x_BD) { return at::zeros({x_BD.size(0)}); });
  const auto more = [&](const at::Tensor& x_BD) {
    nn::Batch of;
    of.x_BD = x_BD;
    of.y_BD = at::ones_like(x_BD);
    return other.model.LinearStack::losses(of);
  };
  EXPECT_EQ(said_of(more), "no error") << "it has no step: what its layers report is dropped";
  for (const bool is_private : {false, true}) {
    auto theirs = other.step(is_private);
    const auto said = said_of(more);
    EXPECT_NE(said.find("another model uses its layers"), said.npos) << said;
    EXPECT_EQ(fault([&] { theirs.run(two_samples(), 2); }), "no error") << "unharmed; " << said;
  }
}

struct Bare : models::Model {
  at::Tensor losses(const nn::Batch& batch) override { return head(batch.x_BD).squeeze(1); }
  torch::nn::Linear head{4, 1};
};

TEST(ForeignLeaves, AModelThatDeclaresNoWeightsIsRefused) {
  for (const bool is_private : {false, true}) {
    auto world = comm::World::simulated(0, 1);
    Bare model;
    const auto said = fault([&] {
      shard::Runtime runtime(model.parameters(), shard::connect_groups(world, shard::policy_of({}, 1)), {});
      const auto optimizer = optim::make_optimizer({});
      privacy::DpConfig dp{.dp = is_private ? privacy::MethodName::automatic : privacy::MethodName::none, .sigma = 1};
      Step(model, runtime, *optimizer, optim::make_schedule({}), step_options(dp)).run(two_samples(), 2);
    });
    EXPECT_NE(said.find("declares no weight that is trained"), said.npos) << said;
  }
}

// Not even of its own model: what a backward outside of the step adds would be in no micro-batch.
TEST(ForeignLeaves, ABackwardOutsideOfTheStepIsRefused) {
  for (const bool is_private : {false, true}) {
    OneModel run([](const at::Tensor& x_BD) { return at::zeros({x_BD.size(0)}); });
    auto step = run.step(is_private);
    const auto aside = [&] {
      run.runtime.begin_forward();
      run.model.losses(two_samples().front()).mean().backward();
    };
    EXPECT_NE(fault(aside).find("backward was called on its losses elsewhere"), std::string::npos);
    EXPECT_EQ(fault([&] { step.run(two_samples(), 2); }), "no error");
    EXPECT_NE(fault(aside).find("backward was called on its losses elsewhere"), std::string::npos);
  }
}

}  // namespace
}  // namespace shade::train
