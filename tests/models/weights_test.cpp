#include "shade/models/weights.h"
#include "shade/base/json.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "shade/base/error.h"
#include "shade/io/weight_folder_writer.h"
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

// As transformers' AutoModel saves a decoder without its head.
TEST(Weights, WithoutTheirPrefixTheyGiveTheSameLogits) {
  const Folder folder;
  const test::Golden golden("qwen2_lm_tied");
  const auto model = golden.model({}, at::kFloat);
  io::TensorMap bare;
  for (const auto& weight : model->parameters().weights())
    bare.emplace(weight.name().substr(std::string("model.").size()), weight.value());
  io::write_weight_folder(folder.path, bare, {});
  const auto again = make_model(golden.folder().string(), {}, {});
  load_weights(again->parameters(), folder.path, at::kFloat);
  const auto batch = golden.batch(at::kFloat);
  EXPECT_TRUE(at::equal(model->outputs(batch), again->outputs(batch)));
  std::filesystem::remove_all(folder.path);
  bare.emplace("embed_positions.weight", at::zeros({2, 2}));
  io::write_weight_folder(folder.path, bare, {});
  EXPECT_NE(test::fault([&] { load_weights(again->parameters(), folder.path, at::kFloat); }).find("embed_positions"),
            std::string::npos);
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

// The tensors of a golden, changed, in a folder of their own.
void write_changed(const std::filesystem::path& folder, const char* golden,
                   const std::function<void(io::TensorMap&)>& change) {
  const io::WeightFolder source(test::Golden(golden).folder() / "model.safetensors");
  io::TensorMap tensors;
  for (const auto& name : source.names()) tensors[name] = source.tensor(name).clone();
  change(tensors);
  io::write_weight_folder(folder, tensors);
}

TEST(Weights, AHeadIsDroppedOnlyIfItRepeatsTheEmbedding) {
  const auto folder = test::Golden("llama_lm_tied").folder().string();
  const auto load = [&](Task task, double factor) {
    const Folder changed;
    write_changed(changed.path, "llama_lm_tied", [&](io::TensorMap& tensors) {
      tensors["lm_head.weight"] = tensors.at("model.embed_tokens.weight") * factor;
      if (task == Task::classify) tensors["score.weight"] = at::ones({2, 24}, at::kDouble);
    });
    return test::fault([&] {
      const auto model = make_model(folder, {.num_classes = 2}, {.task = task});
      load_weights(model->parameters(), changed.path, at::kFloat);
    });
  };
  EXPECT_EQ(load(Task::lm, 1), "no error");
  EXPECT_NE(load(Task::lm, 1.001).find("has an lm_head.weight that is not its embedding, and the model's head is tied"),
            std::string::npos);
  EXPECT_EQ(load(Task::classify, 1.001), "no error") << "a classifier has a head of its own";
}

// The config.json beside weights is compared with the model field by field.
TEST(WeightsConfig, AnotherFunctionIsRefusedByField) {
  const test::Golden golden("llama_lm_rope_llama3");
  const auto sound = read_json(golden.folder() / "config.json");
  const auto said = [&](const Json& change, const ModelOptions& options = {}) {
    const Folder folder;
    std::filesystem::create_directories(folder.path);
    auto config = sound;
    config.merge_patch(change);
    write_json(folder.path / "config.json", config);
    auto out = test::fault([&] { require_same_function(golden.folder().string(), {}, options, folder.path); });
    const auto file = (folder.path / "config.json").string() + ": ";
    return out.starts_with(file) ? out.substr(file.size()) : out;
  };
  EXPECT_EQ(said(Json::object()), "no error");
  const std::vector<std::pair<const char*, Json>> table{
      {"rms_norm_eps", 1e-4},
      {"tie_word_embeddings", !sound.value("tie_word_embeddings", false)},
      {"hidden_size", 96},
      {"num_hidden_layers", 7},
      {"num_attention_heads", 2},
      {"num_key_value_heads", 1},
      {"head_dim", 2},
      {"intermediate_size", 1000},
      {"vocab_size", 1000},
      {"attention_bias", true},
      {"mlp_bias", true},
      {"model_type", "qwen2"}};
  for (const auto& [key, value] : table) {
    const auto found = said({{key, value}});
    EXPECT_NE(found.find(text(key, " is ", value.dump(), ", and ")), std::string::npos) << key << ": " << found;
    EXPECT_NE(found.find("--model "), std::string::npos) << found;
  }
  EXPECT_TRUE(said({{"rope_parameters", {{"rope_theta", 100.0}}}}).starts_with("rope_theta is 100.0, and "));
  EXPECT_TRUE(said({{"rope_parameters", {{"factor", 7.0}}}}).starts_with("rope_scaling is {"));
  EXPECT_TRUE(said({{"rope_parameters", {{"rope_type", "default"}}}}).starts_with("rope_scaling is not set, and {"));
  for (const Json& same : {Json{{"initializer_range", 0.5}},
                           {{"max_position_embeddings", 9}},
                           {{"eos_token_id", 7}},
                           {{"architectures", {"LlamaForSequenceClassification"}}}})
    EXPECT_EQ(said(same), "no error") << same;
  EXPECT_EQ(said({{"tie_word_embeddings", true}}, {.task = Task::classify}), "no error");
}

TEST(WeightsConfig, IsFoundBesideAFileAndMayBeMissing) {
  const test::Golden golden("llama_lm");
  EXPECT_EQ(config_folder(golden.folder() / "model.safetensors"), golden.folder());
  EXPECT_EQ(config_folder(golden.folder()), golden.folder());
  const Folder folder;
  write_changed(folder.path, "llama_lm", [](io::TensorMap&) {});
  EXPECT_EQ(config_folder(folder.path), std::nullopt);
  EXPECT_EQ(test::fault([&] { require_same_function("llama-nano", {}, {}, folder.path); }), "no error");
}

}  // namespace
}  // namespace shade::models
