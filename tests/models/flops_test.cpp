#include "shade/models/flops.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "shade/models/registry.h"

namespace shade::models {
namespace {

double flops(const std::string& name, int64_t length, const ModelOptions& options, const SizeOverrides& sizes = {}) {
  return training_flops_per_token(*make_model(name, sizes, options), {.samples = 1, .seq_length = length});
}

// Of a block of llama-nano: hidden 32, 4 heads of 8, 2 of them for keys, ffn 56.
constexpr double kBlock = 32 * 32 + 2 * 32 * 16 + 32 * 32 + 3 * 32 * 56;
constexpr double kAttention = 12.0 * 2 * 4 * 8;  // per token of the text: 12 L H Q

TEST(ModelFlops, FollowTheUsualFormula) {
  EXPECT_DOUBLE_EQ(flops("llama-nano", 10, {.task = Task::lm}), 6 * (2 * kBlock + 256 * 32) + kAttention * 10);
  // 8,030,261,248 parameters; the table (128,256 x 4096) and the gains of 65 norms are in no product.
  const double products = 8'030'261'248.0 - 128'256.0 * 4096 - 65 * 4096;
  EXPECT_DOUBLE_EQ(flops("llama3-8b", 8192, {.task = Task::lm}), 6 * products + 12.0 * 32 * 32 * 128 * 8192);
}

TEST(ModelFlops, ATableCountsWhereItIsTheHead) {
  const double tied = flops("qwen2-nano", 10, {.task = Task::lm}, {.vocab_size = 300});
  EXPECT_DOUBLE_EQ(flops("qwen2-nano", 10, {.task = Task::lm}, {.vocab_size = 301}) - tied, 6 * 32);
  const auto classify = [](int64_t vocab) {
    return flops("qwen2-nano", 10, {.task = Task::classify}, {.vocab_size = vocab});
  };
  EXPECT_DOUBLE_EQ(classify(300), classify(301));
}

// Frozen weights have no gradients of their own: 2 forward and 2 for their inputs.
TEST(ModelFlops, FrozenWeightsCostTwoThirds) {
  const double adapters = 2 * (3 * (32 + 32) + 3 * (32 + 16));  // of rank 3 on q_proj and v_proj, two layers
  EXPECT_DOUBLE_EQ(flops("llama-nano", 10, {.task = Task::lm, .lora = nn::LoraOptions{.rank = 3}}),
                   4 * (2 * kBlock + 256 * 32) + 6 * adapters + kAttention * 10);
}

TEST(ModelFlops, WhatIsUsedOncePerSampleCountsOnce) {
  const double head = flops("llama-nano", 10, {.task = Task::classify}) - 6 * 2 * kBlock - kAttention * 10;
  const auto model = make_model("llama-nano", {}, {.task = Task::classify});
  const auto classes = model->parameters().weights().back().shape()[0];
  EXPECT_NEAR(head, 6.0 * 32 * static_cast<double>(classes) / 10, 1e-6);
  // dit-nano: 16 patches of 4 x 4 in 3 or 4 channels, hidden 32, mlp 128; modulation and time once per image.
  const auto dit = make_model("dit-nano", {}, {});
  double products = 0;
  for (const auto& weight : dit->parameters().weights()) {
    const auto& name = weight.name();
    if (name.ends_with(".bias") || name == "pos_embed" || name.find("embedding_table") != name.npos) continue;
    const bool once = name.starts_with("t_embedder") || name.find("adaLN") != name.npos;
    products += static_cast<double>(weight.numel()) / (once ? 16 : 1);
  }
  EXPECT_NEAR(training_flops_per_token(*dit, {}), 6 * products + 12.0 * 2 * 32 * 16, 1e-6);
  EXPECT_DOUBLE_EQ(flops("linear-nano", 1, {}), 6.0 * 3 * 24 * 24);
}

TEST(RealTokens, ArePaddingsComplement) {
  const auto model = make_model("llama-nano", {}, {.task = Task::lm});
  auto batch = model->synthetic({.samples = 2, .seq_length = 5}, 1, at::kFloat);
  EXPECT_EQ(real_tokens(*model, batch).sum().item<int64_t>(), 10);
  batch.mask_BT[1].narrow(0, 2, 3).zero_();
  EXPECT_TRUE(real_tokens(*model, batch).equal(at::tensor({5, 2}, at::kLong)));
  EXPECT_EQ(real_tokens(*model, batch.rows(0, 0)).sum().item<int64_t>(), 0);
  const auto dit = make_model("dit-nano", {}, {});
  EXPECT_EQ(real_tokens(*dit, dit->synthetic({.samples = 3}, 1, at::kFloat)).sum().item<int64_t>(), 3 * 16);
}

}  // namespace
}  // namespace shade::models
