// A real pretrained model (tools/real_model) in fp32, compared with transformers and PEFT: logits, losses and every
// gradient of LoRA adapters on all linear layers of the blocks.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <unistd.h>

#include <filesystem>

#include "shade/io/safetensors.h"
#include "shade/io/weight_folder.h"
#include "shade/models/registry.h"
#include "shade/nn/adapter.h"
#include "shade/nn/gradients.h"
#include "tests/models/golden.h"
#include "tests/support/process.h"

namespace shade::test {
namespace {

constexpr double kBound = 1e-4;

struct RealModel : testing::Test {
  void SetUp() override {
    if (!std::filesystem::exists(python)) GTEST_SKIP() << "no transformers: run tools/bootstrap peers";
    if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no SmolLM2: run tools/real_model";
    const auto made = run({python, source_root() + "/tools/golden/real_model.py", folder.string(), file.string()},
                          {.environment = {{"PYTHONDONTWRITEBYTECODE", "1"}}, .limit = Seconds(400)});
    ASSERT_EQ(made.status, 0) << made.output;
  }
  void TearDown() override { std::filesystem::remove(file); }

  std::string python = source_root() + "/.deps/peers/bin/python";
  std::filesystem::path folder = source_root() + "/.deps/models/smollm2-135m";
  std::filesystem::path file = std::filesystem::path(testing::TempDir()) / text("real_model_", ::getpid());
};

TEST_F(RealModel, LogitsLossesAndEveryGradientOfLora) {
  const io::SafetensorsFile expected(file);
  const io::WeightFolder weights(folder);
  const auto model = models::make_model(
      folder.string(), {},
      {.task = models::Task::lm,
       .lora = nn::LoraOptions{.rank = 4, .alpha = 8},
       .lora_targets = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}});
  for (auto& weight : model->parameters().weights())
    weight.bind(nn::is_adapter(weight.name()) ? expected.tensor("adapter." + weight.name()).clone()
                                              : weights.read(weight.name(), at::kFloat));
  nn::Batch batch;
  batch.ids_BT = expected.tensor("input_ids").clone();
  batch.mask_BT = expected.tensor("attention_mask").clone();
  batch.labels = expected.tensor("labels").clone();

  const auto real = batch.mask_BT.to(at::kBool);
  const auto logits = relative_difference(model->outputs(batch).index({real}), expected.tensor("logits").index({real}));
  EXPECT_LT(logits, kBound);

  nn::PlainGradients gradients(at::kFloat);
  model->parameters().wiring.tap = &gradients;
  const auto found = model->losses(batch);
  const auto losses = relative_difference(found, expected.tensor("losses"));
  EXPECT_LT(losses, kBound);
  torch::autograd::backward({found.sum()}, {});
  double worst = 0;
  int adapters = 0;
  for (const auto& weight : model->parameters().weights()) {
    ASSERT_EQ(weight.trainable(), nn::is_adapter(weight.name())) << weight.name();
    if (!weight.trainable()) continue;
    const auto off = relative_difference(gradients.of(weight), expected.tensor("grad." + weight.name()));
    EXPECT_LT(off, kBound) << weight.name();
    worst = std::max(worst, off);
    ++adapters;
  }
  EXPECT_EQ(adapters, 30 * 7 * 2);
  std::printf("SmolLM2-135M, fp32: logits %.1e, losses %.1e, %d gradients of LoRA %.1e from transformers\n", logits,
              losses, adapters, worst);
}

}  // namespace
}  // namespace shade::test
