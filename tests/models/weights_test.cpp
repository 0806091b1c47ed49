#include "shade/models/weights.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "shade/base/error.h"
#include "shade/models/registry.h"
#include "tests/models/golden.h"
#include "tests/support/fault.h"

namespace shade::models {
namespace {

struct Folder {
  std::filesystem::path path = std::filesystem::path(testing::TempDir()) / text("weights_", ::getpid());
  ~Folder() { std::filesystem::remove_all(path); }
};

TEST(Weights, ShardedIsTheSameAsWhole) {
  const test::Golden golden("llama_lm");
  const auto whole = golden.model({}, at::kFloat);
  const auto sharded = make_model(golden.folder().string(), {}, {});
  load_weights(sharded->parameters(), golden.folder() / "sharded", at::kFloat);
  const auto batch = golden.batch(at::kFloat);
  EXPECT_TRUE(at::equal(whole->outputs(batch), sharded->outputs(batch)));
}

TEST(Weights, WrittenBackTheyGiveTheSameLogits) {
  for (const char* name : {"llama_lm", "qwen2_lm_tied", "dit", "dit_published"}) {
    for (const int64_t shard : {int64_t{1} << 30, int64_t{10'000}}) {
      const Folder folder;
      const test::Golden golden(name);
      const auto model = golden.model({}, at::kFloat);
      save_weights(model->parameters(), folder.path, shard);
      const auto again = make_model(golden.folder().string(), {}, {});
      load_weights(again->parameters(), folder.path, at::kFloat);
      const auto batch = golden.batch(at::kFloat);
      EXPECT_TRUE(at::equal(model->outputs(batch), again->outputs(batch))) << name;
    }
  }
}

TEST(SaveModel, TheFolderAloneMakesTheModelAgain) {
  for (const std::string name : {"llama_classify", "qwen2_lm_tied", "dit", "dit_published"}) {
    const Folder folder;
    const test::Golden golden(name);
    const auto model = golden.model({}, at::kFloat);
    save_model(*model, folder.path);
    const auto again = make_model(folder.path.string(), {}, {});
    load_weights(again->parameters(), folder.path, at::kFloat);
    const auto batch = golden.batch(at::kFloat);
    EXPECT_TRUE(at::equal(model->outputs(batch), again->outputs(batch))) << name;
    EXPECT_EQ(again->config_json(), model->config_json()) << name;
  }
  const Folder folder;
  const auto stack = make_model("linear-nano", {.num_layers = 2}, {});
  nn::bind_all(stack->parameters(), at::kBFloat16, 1);
  save_model(*stack, folder.path);
  EXPECT_EQ(make_model(folder.path.string(), {}, {})->describe(), stack->describe());
  EXPECT_EQ(read_json(folder.path / "config.json")["torch_dtype"], "bfloat16");
}

// facebookresearch/DiT: the state dict of a model of one block.
TEST(Weights, OfADitHaveThePublishedNames) {
  const auto model =
      make_model("dit-nano", {.num_layers = 1, .positions = nn::Positions::sincos, .learn_sigma = true}, {});
  std::set<std::string> names;
  for (const auto& weight : model->parameters().weights()) names.insert(weight.name());
  std::set<std::string> published{"pos_embed", "y_embedder.embedding_table.weight"};
  for (const char* layer : {"x_embedder.proj", "t_embedder.mlp.0", "t_embedder.mlp.2", "blocks.0.attn.qkv",
                            "blocks.0.attn.proj", "blocks.0.mlp.fc1", "blocks.0.mlp.fc2", "blocks.0.adaLN_modulation.1",
                            "final_layer.linear", "final_layer.adaLN_modulation.1"})
    for (const char* part : {".weight", ".bias"}) published.insert(text(layer, part));
  EXPECT_EQ(names, published);
  EXPECT_EQ(model->parameters().find("pos_embed")->shape(), (std::vector<int64_t>{1, 16, 32}));
  EXPECT_EQ(model->parameters().find("final_layer.linear.weight")->shape(), (std::vector<int64_t>{4 * 4 * 6, 32}));
}

// The fixed positions that the reference stored, made anew.
TEST(Weights, SincosPositionsAreThePublishedOnes) {
  const test::Golden golden("dit_published");
  const auto loaded = golden.model({}, at::kFloat);
  const auto made = make_model(golden.folder().string(), {}, {});
  nn::bind_all(made->parameters(), at::kFloat, 1);
  const auto& positions = made->parameters().find("pos_embed")->value();
  EXPECT_LT((positions - loaded->parameters().find("pos_embed")->value()).abs().max().item<double>(), 1e-7);
  auto piece = at::empty({100});
  nn::initialise(piece, *made->parameters().find("pos_embed"), 1, 33);
  EXPECT_TRUE(at::equal(piece, positions.view(-1).narrow(0, 33, 100))) << "a rank makes its piece alone";
}

TEST(SaveModel, AdaptersAreNotLeftOutInSilence) {
  const Folder folder;
  const auto model = make_model("llama-nano", {}, {.lora = nn::LoraOptions{}});
  nn::bind_all(model->parameters(), at::kFloat, 1);
  EXPECT_NE(test::fault([&] {
              save_model(*model, folder.path);
            }).find("has a LoRA adapter 'model.layers.0.self_attn.q_proj.lora_A.weight'"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder.path)) << "nothing is half written";
}

// A view is the file's own memory, not to be written to; a copy, or another type, is the model's.
TEST(Weights, WithoutCopyTheyAreViewsOfTheFile) {
  const test::Golden golden("llama_lm");
  const auto model = make_model(golden.folder().string(), {}, {});
  const auto owned = [&](at::ScalarType type, bool copy) {
    load_weights(model->parameters(), golden.folder() / "model.safetensors", type, copy);
    return model->parameters().weights().front().value().storage().resizable();  // memory of others is not
  };
  EXPECT_FALSE(owned(at::kFloat, false));
  EXPECT_TRUE(owned(at::kFloat, true));
  EXPECT_TRUE(owned(at::kDouble, false));
}

TEST(Weights, WhatDoesNotFitIsNamed) {
  const test::Golden golden("llama_lm");
  const auto fault = [&](const std::string& model, const SizeOverrides& sizes,
                         const ModelOptions& options) -> std::string {
    try {
      const auto made = make_model(model, sizes, options);
      load_weights(made->parameters(), golden.folder() / "model.safetensors", at::kFloat);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "no error";
  };
  const auto folder = golden.folder().string();
  EXPECT_NE(fault(folder, {}, {.task = Task::classify}).find("has no tensor 'score.weight', which the model needs"),
            std::string::npos);
  EXPECT_NE(fault(folder, {.num_layers = 1}, {}).find("tensors that the model doesn't know, e.g. 'model.layers.1."),
            std::string::npos);
  EXPECT_NE(fault(folder, {.vocab_size = 50}, {}).find("has shape [41, 24], the model expects [50, 24]"),
            std::string::npos)
      << fault(folder, {.vocab_size = 50}, {});
}

}  // namespace
}  // namespace shade::models
