#include <gtest/gtest.h>

#include "shade/models/decoder.h"
#include "shade/models/registry.h"
#include "tests/models/golden.h"
#include "tests/support/fault.h"
#include "tests/support/process.h"

namespace shade::models {
namespace {
using test::fault;

TEST(Registry, NamedModelsHaveTheirPublishedSizes) {
  const auto count = [](const char* name, const ModelOptions& options = {}) {
    return make_model(name, {}, options)->parameters().count();
  };
  EXPECT_EQ(count("llama3-8b"), 8'030'261'248);
  EXPECT_EQ(count("llama3.2-1b"), 1'235'814'400);
  EXPECT_EQ(count("qwen2-1.5b"), 1'543'714'304);
  EXPECT_EQ(count("llama3-8b", {.task = Task::classify}), 8'030'261'248 - 128256 * 4096 + 3 * 4096);
  // DiT-XL/2 on 32 x 32 latents of 4 channels has 675 M; here 256 x 256 pixels of 3 channels, no learned sigma.
  EXPECT_NEAR(static_cast<double>(count("dit-xl/2")), 693.7e6, 1e5);
  EXPECT_NEAR(static_cast<double>(count("dit-l")), 459e6, 3e6);
}

TEST(Registry, AnySizeByOptions) {
  const auto model = make_model(
      "llama3-8b",
      {.hidden_dim = 64, .num_layers = 1, .num_heads = 2, .num_kv_heads = 1, .ffn_dim = 96, .vocab_size = 100}, {});
  EXPECT_EQ(model->parameters().count(), 2 * 100 * 64 + 64 * 64 * 2 + 2 * 64 * 32 + 3 * 64 * 96 + 3 * 64);
}

TEST(Registry, UnknownNamesAreAnswered) {
  EXPECT_NE(fault([] { make_model("llama3-9b", {}, {}); }).find("did you mean 'llama3-8b'?"), std::string::npos);
  EXPECT_EQ(fault([] { make_model("dit-l", {}, {.task = Task::lm}); }), "a DiT is trained with --task denoise, not lm");
  EXPECT_EQ(fault([] { make_model("dit-l", {.image_size = 250}, {}); }),
            "an image of 250 doesn't divide into patches of 8");
  EXPECT_EQ(fault([] { make_model("llama-nano", {.num_kv_heads = 3}, {}); }),
            "4 heads don't divide by 3 key-value heads");
}

TEST(HfConfig, BothGenerationsOfKeysMeanTheSame) {
  for (const char* name : {"llama_lm", "llama_lm_rope_llama3", "qwen2_lm_tied", "llama_classify"}) {
    const auto folder = std::filesystem::path(test::source_root()) / "tests/golden" / name;
    const auto five = DecoderConfig::from_hf(read_json(folder / "config.json"), "5");
    const auto four = DecoderConfig::from_hf(read_json(folder / "config_v4.json"), "4");
    EXPECT_EQ(five.to_hf(), four.to_hf()) << name;
    EXPECT_EQ(DecoderConfig::from_hf(five.to_hf(), "again").to_hf(), five.to_hf()) << "what we write we read back";
  }
}

TEST(HfConfig, WhatOnlyTransformersReadsIsKept) {
  Json json{{"model_type", "qwen2"},    {"hidden_size", 8},       {"num_hidden_layers", 1}, {"head_dim", 6},
            {"num_attention_heads", 2}, {"intermediate_size", 8}, {"vocab_size", 9},        {"eos_token_id", {7, 8}}};
  const auto again = [&] { return DecoderConfig::from_hf(json, "c.json").to_hf(); };
  EXPECT_EQ(again()["eos_token_id"], Json({7, 8}));
  EXPECT_FALSE(again().contains("bos_token_id")) << "absent means transformers' default, which null doesn't";
  EXPECT_EQ(again()["head_dim"], 6);
}

TEST(HfConfig, AClassifierWithoutLabelsHasTwo) {
  Json json{{"model_type", "llama"},
            {"hidden_size", 8},
            {"num_hidden_layers", 1},
            {"num_attention_heads", 2},
            {"intermediate_size", 8},
            {"vocab_size", 9},
            {"architectures", {"LlamaForSequenceClassification"}}};
  EXPECT_EQ(DecoderConfig::from_hf(json, "c.json").classes, 2) << "transformers leaves its default out";
}

TEST(HfConfig, WhatIsNotSupportedIsSaid) {
  Json json{{"model_type", "llama"},    {"hidden_size", 8},       {"num_hidden_layers", 1},
            {"num_attention_heads", 2}, {"intermediate_size", 8}, {"vocab_size", 9}};
  EXPECT_EQ(fault([&] { DecoderConfig::from_hf(json, "c.json"); }), "no error");
  const auto with = [&](const char* key, Json value) {
    auto changed = json;
    changed[key] = std::move(value);
    return fault([&] { DecoderConfig::from_hf(changed, "c.json"); });
  };
  EXPECT_EQ(with("model_type", "mamba"), "c.json: model_type 'mamba' is not supported; expected llama or qwen2");
  EXPECT_EQ(with("hidden_act", "gelu"), "c.json: hidden_act 'gelu' is not supported; expected silu");
  EXPECT_EQ(with("hidden_size", "big"), "c.json: key 'hidden_size' is \"big\"; expected a number");
  EXPECT_EQ(with("vocab_size", nullptr), "c.json: key 'vocab_size' is missing");
  EXPECT_EQ(with("rope_scaling", {{"type", "yarn"}}),
            "c.json: rope_type 'yarn' is not supported; expected default or llama3");
}

}  // namespace
}  // namespace shade::models
