#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "shade/base/sanitizer.h"
#include "shade/models/decoder.h"
#include "shade/models/dit.h"
#include "shade/models/linear_stack.h"
#include "shade/models/registry.h"
#include "tests/io/scratch.h"
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
  EXPECT_EQ(count("llama3.1-8b"), 8'030'261'248);
  EXPECT_EQ(count("llama3.2-1b"), 1'235'814'400);
  EXPECT_EQ(count("qwen2-1.5b"), 1'543'714'304);
  EXPECT_EQ(count("mistral-7b"), 7'248'023'552);
  EXPECT_EQ(count("qwen3-0.6b"), 596'049'920);
  EXPECT_EQ(count("qwen3-1.7b"), 1'720'574'976);
  EXPECT_EQ(count("qwen3-4b"), 4'022'468'096);
  EXPECT_EQ(count("qwen3-8b"), 8'190'735'360);
  EXPECT_EQ(count("llama3-8b", {.task = Task::classify}), 8'030'261'248 - 128256 * 4096 + 3 * 4096);
  // DiT-XL/2 on 32 x 32 latents of 4 channels has 675 M; here 256 x 256 pixels of 3 channels, no learned sigma.
  EXPECT_NEAR(static_cast<double>(count("dit-xl/2")), 693.7e6, 1e5);
  EXPECT_NEAR(static_cast<double>(count("dit-l")), 459e6, 3e6);
}

// As in the config.json of the published checkpoints.
TEST(Registry, NamedModelsHaveTheirPublishedPositions) {
  const auto of = [](const char* name) { return parse_json(make_model(name, {}, {})->config_json()); };
  const auto scaling = [](double factor) {
    return Json{{"rope_type", "llama3"},
                {"factor", factor},
                {"low_freq_factor", 1.0},
                {"high_freq_factor", 4.0},
                {"original_max_position_embeddings", 8192}};
  };
  for (const auto& [name, theta, positions, rope] : {std::tuple{"llama3-8b", 5e5, 8192, Json()},
                                                     {"llama3.1-8b", 5e5, 131072, scaling(8)},
                                                     {"llama3.2-1b", 5e5, 131072, scaling(32)},
                                                     {"qwen2-1.5b", 1e6, 131072, Json()},
                                                     {"mistral-7b", 1e6, 32768, Json()},
                                                     {"qwen3-8b", 1e6, 40960, Json()}}) {
    const auto config = of(name);
    EXPECT_EQ(config["rope_theta"], theta) << name;
    EXPECT_EQ(config["max_position_embeddings"], positions) << name;
    EXPECT_EQ(config.value("rope_scaling", Json()), rope) << name;
  }
}

TEST(Registry, NothingIsCalledWhatItIsNot) {
  EXPECT_EQ(model_title("llama3-8b", {}), "llama3-8b");
  EXPECT_EQ(model_title("llama3-8b", {.hidden_dim = 4096, .num_layers = 32}), "llama3-8b") << "its own sizes";
  EXPECT_EQ(model_title("llama3-8b", {.hidden_dim = 256, .num_layers = 2, .num_heads = 4}),
            "llama 256 x 2, shape of llama3-8b");
  EXPECT_EQ(model_title("llama3-8b", {.vocab_size = 100}), "llama 4096 x 32, shape of llama3-8b");
  EXPECT_EQ(model_title("qwen2-1.5b", {.num_layers = 3}), "qwen2 1536 x 3, shape of qwen2-1.5b");
  EXPECT_EQ(model_title("dit-l", {.num_layers = 24, .image_size = 256, .patch_size = 8}), "dit-l");
  EXPECT_EQ(model_title("dit-l", {.image_size = 128}), "dit 1024 x 24, shape of dit-l");
  EXPECT_EQ(model_title("dit-xl/2", {}), "dit-xl/2");
  EXPECT_EQ(model_title("linear", {}), "linear 1024 x 8");
  EXPECT_EQ(model_title("linear", {.hidden_dim = 16384}), "linear 16384 x 8");
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
  for (const char* name : {"llama_lm", "llama_lm_rope_llama3", "qwen2_lm_tied", "llama_classify", "mistral_lm",
                           "mistral_classify", "qwen3_lm", "qwen3_lm_tied_bias"}) {
    const auto folder = std::filesystem::path(test::source_root()) / "tests/golden" / name;
    const auto five = DecoderConfig::from_json(read_json(folder / "config.json"), "5");
    const auto four = DecoderConfig::from_json(read_json(folder / "config_v4.json"), "4");
    EXPECT_EQ(five.to_json(), four.to_json()) << name;
    EXPECT_EQ(DecoderConfig::from_json(five.to_json(), "again").to_json(), five.to_json())
        << "what we write we read back";
  }
}

TEST(HfConfig, WhatOnlyTransformersReadsIsKept) {
  Json json{{"model_type", "qwen2"},    {"hidden_size", 8},       {"num_hidden_layers", 1}, {"head_dim", 6},
            {"num_attention_heads", 2}, {"intermediate_size", 8}, {"vocab_size", 9},        {"eos_token_id", {7, 8}}};
  const auto again = [&] { return DecoderConfig::from_json(json, "c.json").to_json(); };
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
  EXPECT_EQ(DecoderConfig::from_json(json, "c.json").classes, 2) << "transformers leaves its default out";
}

TEST(HfConfig, WhatIsNotSupportedIsSaid) {
  Json json{{"model_type", "llama"},    {"hidden_size", 8},       {"num_hidden_layers", 1},
            {"num_attention_heads", 2}, {"intermediate_size", 8}, {"vocab_size", 9}};
  EXPECT_EQ(fault([&] { DecoderConfig::from_json(json, "c.json"); }), "no error");
  const auto with = [&](const char* key, Json value) {
    auto changed = json;
    changed[key] = std::move(value);
    return fault([&] { DecoderConfig::from_json(changed, "c.json"); });
  };
  EXPECT_EQ(with("model_type", "mamba"),
            "c.json: model_type 'mamba' is not supported; expected one of llama, mistral, qwen2, qwen3");
  EXPECT_EQ(with("hidden_act", "gelu"), "c.json: hidden_act 'gelu' is not supported; expected silu");
  EXPECT_EQ(with("hidden_size", "big"), "c.json: hidden_size is \"big\"; expected a whole number");
  EXPECT_EQ(with("vocab_size", nullptr), "c.json: vocab_size is missing");
  EXPECT_EQ(with("hidden_act", "swish"), "no error") << "another name of silu";
  EXPECT_EQ(with("quantization_config", {{"quant_method", "gptq"}}).find("c.json: quantization_config is set"), 0u);
  EXPECT_EQ(with("partial_rotary_factor", 0.5), "c.json: partial_rotary_factor is 0.5; expected 1, or none");
  EXPECT_EQ(with("rope_parameters", {{"partial_rotary_factor", 0.25}}),
            "c.json: partial_rotary_factor is 0.25; expected 1, or none");
  EXPECT_EQ(with("rope_scaling", {{"type", "yarn"}}),
            "c.json: rope_type 'yarn' is not supported; expected default or llama3");
}

// A window that the sequence fits into changes nothing; what is longer is refused wherever it comes from.
TEST(HfConfig, ASlidingWindowLimitsTheSequence) {
  const test::Golden golden("qwen2_lm");
  const auto sound = read_json(golden.folder() / "config.json");
  const auto with = [&](const Json& change) {
    auto json = sound;
    json.erase("layer_types");
    json.merge_patch(change);
    return DecoderConfig::from_json(json, "c.json");
  };
  const auto length = golden.batch(at::kFloat).ids_BT.size(1);
  EXPECT_EQ(with({{"sliding_window", 4}}).window, 0) << "not used";
  EXPECT_EQ(with({{"use_sliding_window", true}, {"sliding_window", 4}}).window, 0) << "from the 28th layer";
  const Json slides{{"use_sliding_window", true}, {"sliding_window", length - 1}, {"max_window_layers", 1}};
  const auto narrow = with(slides);
  EXPECT_EQ(narrow.window, length - 1);
  EXPECT_EQ(with({{"use_sliding_window", true}, {"sliding_window", 4}, {"layer_types", {"full_attention"}}}).window, 0);
  EXPECT_EQ(with({{"use_sliding_window", true}, {"sliding_window", 4}, {"layer_types", {"sliding_attention"}}}).window,
            4);
  for (const auto& [key, value] : slides.items()) EXPECT_EQ(narrow.to_json()[key], value) << "transformers needs it";
  Decoder model(narrow, {});
  nn::bind_all(model.parameters(), at::kFloat, 1);
  EXPECT_EQ(fault([&] { model.outputs(golden.batch(at::kFloat)); }),
            text("--seq-length ", length, " is longer than the sliding window of ", length - 1,
                 " tokens (sliding_window in config.json), which is not supported; choose --seq-length ", length - 1,
                 " or less"));
}

TEST(HfConfig, MistralsWindowIsUsedUnlessItIsNull) {
  auto json = read_json(test::Golden("mistral_lm").folder() / "config.json");
  const auto window = [&] {
    const auto config = DecoderConfig::from_json(json, "c.json");
    EXPECT_EQ(DecoderConfig::from_json(config.to_json(), "again").window, config.window);
    return config.window;
  };
  EXPECT_EQ(window(), 9);
  json["sliding_window"] = nullptr;
  EXPECT_EQ(window(), 0);
  EXPECT_TRUE(DecoderConfig::from_json(json, "c.json").to_json().contains("sliding_window")) << "absent means 4096";
  json.erase("sliding_window");
  EXPECT_EQ(window(), 4096);
}

TEST(HfConfig, WhatOnlyTrainingInTransformersDoesIsNamed) {
  const io::Scratch folder;
  folder.write("config.json", R"({"attention_dropout": 0.1, "hidden_dropout": 0.0, "classifier_dropout": 0.25,
                                  "problem_type": "regression"})");
  EXPECT_EQ(not_trained_with(folder.path()),
            (std::vector<std::string>{"attention_dropout 0.1", "classifier_dropout 0.25", "problem_type regression"}));
}

// --- what no configuration may say --------------------------------------------------------------------------------

const Json kLlama{{"model_type", "llama"},    {"hidden_size", 8},       {"num_hidden_layers", 1},
                  {"num_attention_heads", 2}, {"intermediate_size", 8}, {"vocab_size", 9}};
const Json kDit{{"hidden_size", 8}, {"depth", 1}, {"num_heads", 2}, {"patch_size", 2}, {"image_size", 4}};
const Json kStack{{"model_type", "linear"}, {"width", 8}, {"depth", 1}, {"bias", true}};
const Json kScaling{{"rope_type", "llama3"},
                    {"factor", 8.0},
                    {"low_freq_factor", 1.0},
                    {"high_freq_factor", 4.0},
                    {"original_max_position_embeddings", 16}};

const std::vector<Json> kNoCount{0,
                                 -1,
                                 1.5,
                                 -0.5,
                                 "8",
                                 true,
                                 false,
                                 Json::array({8}),
                                 Json::object(),
                                 1e300,
                                 9'000'000'000'000'000'000,
                                 18446744073709551615ull};
const std::vector<Json> kNoPositive{0, 0.0, -1, -1e-9, "1", true, Json::array({1}), Json::object()};
const std::vector<Json> kNoNumber{"1", true, Json::array({1}), Json::object()};
const std::vector<Json> kNoSwitch{0, 1, 1.0, "true", Json::array(), Json::object()};
const std::vector<Json> kNoText{1, 1.5, true, Json::array(), Json::object()};
const std::vector<Json> kNoObject{1, "yarn", true, Json::array({1})};

struct Refused {
  const char* key;
  const std::vector<Json>& values;
};

// Every value of every key: the message names the file, the key and what was expected.
void expect_refused(const Json& sound, std::span<const Refused> table,
                    const std::function<void(const Json&, const std::string&)>& read, const char* inside = nullptr) {
  EXPECT_EQ(fault([&] { read(sound, "c.json"); }), "no error");
  for (const auto& [key, values] : table)
    for (const auto& value : values) {
      auto changed = sound;
      (inside == nullptr ? changed : changed[inside])[key] = value;
      const auto said = fault([&] { read(changed, "c.json"); });
      EXPECT_TRUE(said.starts_with("c.json: ")) << key << " " << value << ": " << said;
      EXPECT_NE(said.find(key), std::string::npos) << value << ": " << said;
      EXPECT_NE(said.find("expected"), std::string::npos) << key << " " << value << ": " << said;
    }
}

TEST(ConfigChecks, EveryFieldOfADecoder) {
  const auto read = [](const Json& json, const std::string& source) { DecoderConfig::from_json(json, source); };
  const std::vector<Json> no_token{9, 10, -2, 0.5, "0", true};
  const std::vector<Json> no_spread{-1, -0.02, "0.02", true};
  const std::vector<Refused> table{{"model_type", kNoText},
                                   {"hidden_act", kNoText},
                                   {"hidden_size", kNoCount},
                                   {"num_hidden_layers", kNoCount},
                                   {"num_attention_heads", kNoCount},
                                   {"num_key_value_heads", kNoCount},
                                   {"intermediate_size", kNoCount},
                                   {"vocab_size", kNoCount},
                                   {"head_dim", kNoCount},
                                   {"max_position_embeddings", kNoCount},
                                   {"rms_norm_eps", kNoPositive},
                                   {"rope_theta", kNoPositive},
                                   {"initializer_range", no_spread},
                                   {"pad_token_id", no_token},
                                   {"tie_word_embeddings", kNoSwitch},
                                   {"attention_bias", kNoSwitch},
                                   {"mlp_bias", kNoSwitch},
                                   {"use_sliding_window", kNoSwitch},
                                   {"partial_rotary_factor", kNoPositive},
                                   {"rope_scaling", kNoObject},
                                   {"rope_parameters", kNoObject},
                                   {"id2label", kNoObject}};
  expect_refused(kLlama, table, read);
  const std::vector<Json> no_low{4.0, 5.0, 0, -1, "1", true};
  const std::vector<Json> no_high{1.0, 0.5, 0, -1, "1", true};
  const std::vector<Refused> scaling{{"rope_type", kNoText},
                                     {"factor", kNoPositive},
                                     {"low_freq_factor", no_low},
                                     {"high_freq_factor", no_high},
                                     {"original_max_position_embeddings", kNoCount}};
  for (const char* inside : {"rope_scaling", "rope_parameters"}) {
    auto sound = kLlama;
    sound[inside] = kScaling;
    expect_refused(sound, scaling, read, inside);
  }
  auto five = kLlama;
  five["rope_parameters"] = {{"rope_theta", 1e4}};
  const std::vector<Refused> theta{{"rope_theta", kNoPositive}};
  expect_refused(five, theta, read, "rope_parameters");
}

TEST(ConfigChecks, EveryFieldOfADitAndALinearStack) {
  const std::vector<Json> no_ratio{0, -4, 1e9, 0.01, "4", true};
  const std::vector<Json> no_chance{-0.1, 1.1, "0.1", true};
  const std::vector<Json> no_pair{0, -2, 3, 1.5, "2", true};
  const std::vector<Json> no_position{"auto", "rotary", 3, true};
  const std::vector<Refused> dit{
      {"hidden_size", kNoCount},         {"depth", kNoCount},        {"num_heads", kNoCount},
      {"patch_size", kNoCount},          {"image_size", kNoCount},   {"in_channels", kNoCount},
      {"num_classes", kNoCount},         {"mlp_ratio", no_ratio},    {"frequency_dim", no_pair},
      {"class_dropout_prob", no_chance}, {"learn_sigma", kNoSwitch}, {"positions", no_position}};
  expect_refused(kDit, dit, [](const Json& json, const std::string& source) { DitConfig::from_json(json, source); });
  const std::vector<Refused> stack{{"width", kNoCount}, {"depth", kNoCount}, {"bias", kNoSwitch}};
  expect_refused(kStack, stack,
                 [](const Json& json, const std::string& source) { LinearStackConfig::from_json(json, source); });
}

TEST(ConfigChecks, ADitAsPublished) {
  const Json xl{{"hidden_size", 1152}, {"depth", 28},      {"num_heads", 16},       {"patch_size", 2},
                {"image_size", 32},    {"in_channels", 4}, {"positions", "sincos"}, {"learn_sigma", true}};
  const io::Scratch folder;
  folder.write("config.json", xl.dump());
  const auto size = size_of(folder.path().string(), {}, {});
  EXPECT_EQ(size.parameters, 675'129'632) << "as its training script prints it";
  EXPECT_EQ(size.trainable, 675'129'632 - 256 * 1152) << "but the positions";
  EXPECT_NE(make_model(folder.path().string(), {.num_layers = 1}, {})->describe().find("sin-cos positions, learned"),
            std::string::npos);
  auto narrow = kDit;
  narrow.update({{"hidden_size", 6}, {"positions", "sincos"}});
  EXPECT_EQ(fault([&] { DitConfig::from_json(narrow, "c.json"); }),
            "c.json: hidden size 6 doesn't divide by 4, as sincos positions need it; choose learned ones or another "
            "size");
  for (const char* other : {"llama-nano", "linear-nano"}) {
    EXPECT_NE(fault([&] { make_model(other, {.learn_sigma = true}, {}); }).find("for DiT models"), std::string::npos);
    EXPECT_NE(fault([&] { make_model(other, {.positions = nn::Positions::learned}, {}); }).find("for DiT models"),
              std::string::npos);
  }
}

TEST(ConfigChecks, SizesThatDontFitEachOther) {
  const auto with = [](Json json, const Json& more) {
    json.update(more);
    return fault([&] { DecoderConfig::from_json(json, "c.json"); });
  };
  EXPECT_EQ(with(kLlama, {{"num_key_value_heads", 3}}), "c.json: 2 heads don't divide by 3 key-value heads");
  EXPECT_EQ(with(kLlama, {{"num_attention_heads", 3}}),
            "c.json: hidden size 8 doesn't divide by 3 heads; choose a multiple of their number");
  EXPECT_EQ(with(kLlama, {{"head_dim", 3}}), "c.json: a head of 3 can't be rotated in pairs; expected an even size");
  EXPECT_EQ(with(kLlama, {{"num_attention_heads", 1 << 20}, {"head_dim", 1 << 20}}),
            "c.json: 1048576 heads of 1048576 are too wide; expected at most 1048576 together");
  EXPECT_EQ(with(kLlama, {{"num_hidden_layers", 1'000'000'000}}),
            "c.json: num_hidden_layers is 1000000000; expected a whole number from 1 to 100000");
  EXPECT_EQ(with(kLlama, {{"num_hidden_layers", 2.0}}), "no error") << "a whole number, however it is written";
  EXPECT_EQ(fault([] { DecoderConfig::from_json(Json::array({1}), "c.json"); }),
            "c.json is [1]; expected an object with a model's sizes");
}

TEST(ConfigChecks, SizesOfTheCommandLine) {
  constexpr int64_t kHuge = 9'000'000'000'000'000'000;
  using Set = int64_t SizeOverrides::*;
  const std::vector<std::tuple<const char*, Set, const char*>> table{
      {"llama-nano", &SizeOverrides::hidden_dim, "hidden_size (--hidden-dim)"},
      {"llama-nano", &SizeOverrides::num_layers, "num_hidden_layers (--num-layers)"},
      {"llama-nano", &SizeOverrides::num_heads, "num_attention_heads (--num-heads)"},
      {"llama-nano", &SizeOverrides::num_kv_heads, "num_key_value_heads (--num-kv-heads)"},
      {"llama-nano", &SizeOverrides::ffn_dim, "intermediate_size (--ffn-dim)"},
      {"llama-nano", &SizeOverrides::vocab_size, "vocab_size (--vocab-size)"},
      {"llama-nano", &SizeOverrides::num_classes, "number of classes (--num-classes)"},
      {"dit-nano", &SizeOverrides::hidden_dim, "hidden_size (--hidden-dim)"},
      {"dit-nano", &SizeOverrides::num_layers, "depth (--num-layers)"},
      {"dit-nano", &SizeOverrides::num_heads, "num_heads (--num-heads)"},
      {"dit-nano", &SizeOverrides::image_size, "image_size (--image-size)"},
      {"dit-nano", &SizeOverrides::patch_size, "patch_size (--patch-size)"},
      {"dit-nano", &SizeOverrides::num_classes, "num_classes (--num-classes)"},
      {"linear", &SizeOverrides::hidden_dim, "width (--hidden-dim)"},
      {"linear", &SizeOverrides::num_layers, "depth (--num-layers)"}};
  for (const auto& [model, field, name] : table) {
    SizeOverrides sizes;
    sizes.*field = kHuge;
    for (const auto& said : {fault([&] { make_model(model, sizes, {}); }), fault([&] { size_of(model, sizes, {}); })})
      EXPECT_TRUE(said.starts_with(text(name, " is ", kHuge, "; expected a whole number from 1 to "))) << said;
  }
  SizeOverrides sizes;
  Config config;
  config.add("size", sizes);
  for (const auto& field : config.fields())
    for (const char* word : {"-1", "1.5", "many", "99999999999999999999"})
      EXPECT_NE(fault([&] { config.set(field.key(), word); }).find(field.key()), std::string::npos) << word;
  for (const nn::LoraOptions& lora : {nn::LoraOptions{.rank = 0}, {.rank = -4}, {.rank = kHuge}})
    EXPECT_NE(fault([&] { make_model("llama-nano", {}, {.lora = lora}); }).find("lora_rank (--lora-rank) is "),
              std::string::npos);
  for (const double alpha : {0.0, -32.0, std::nan("")})
    EXPECT_NE(fault([&] {
                make_model("llama-nano", {}, {.lora = nn::LoraOptions{.rank = 2, .alpha = alpha}});
              }).find("lora_alpha (--lora-alpha) is "),
              std::string::npos);
  EXPECT_NE(fault([] { make_model("linear", {}, {.lora = nn::LoraOptions{}}); }).find("trained whole"),
            std::string::npos);
}

// Without building more than two blocks of it.
TEST(Registry, ASizeIsCountedWithoutTheModel) {
  for (const char* name :
       {"llama-nano", "mistral-nano", "qwen2-nano", "qwen3-nano", "dit-nano", "linear-nano", "llama3-8b", "dit-xl/2"})
    for (const int64_t layers : {1, 2, 3, 7}) {
      const auto model = make_model(name, {.num_layers = layers}, {});
      const auto size = size_of(name, {.num_layers = layers}, {});
      EXPECT_EQ(size.parameters, model->parameters().count()) << name << " " << layers;
      EXPECT_EQ(size.trainable, model->parameters().count_trainable()) << name << " " << layers;
    }
  const ModelOptions lora{.task = Task::classify, .lora = nn::LoraOptions{}};
  const auto model = make_model("llama3-8b", {}, lora);
  EXPECT_EQ(size_of("llama3-8b", {}, lora).parameters, model->parameters().count());
  EXPECT_EQ(size_of("llama3-8b", {}, lora).trainable, model->parameters().count_trainable());
  const auto begin = Clock::now();
  EXPECT_EQ(size_of("linear", {.hidden_dim = 1 << 20, .num_layers = 100'000}, {}).parameters,
            100'000 * ((int64_t{1} << 40) + (1 << 20)));
  const io::Scratch folder;
  auto wide = kDit;
  wide.update({{"hidden_size", 1 << 20}, {"depth", 100'000}, {"mlp_ratio", 1024}});
  folder.write("config.json", wide.dump());
  EXPECT_EQ(
      fault([&] { size_of(folder.path().string(), {}, {}); }),
      "a model of 100000 blocks with 2262796015239168 parameters each has more than can be counted; choose smaller "
      "sizes");
  EXPECT_LT(Seconds(Clock::now() - begin).count(), 1);
}

// Names are looked up, not searched for: the time grows with the number of weights, not with its square.
TEST(Registry, ManyLayersAreDeclaredQuickly) {
  const auto begin = Clock::now();
  EXPECT_EQ(make_model("linear", {.hidden_dim = 2, .num_layers = 100'000}, {})->parameters().units().size(), 100'000u);
  EXPECT_LT(Seconds(Clock::now() - begin).count(), SHADE_SANITIZED ? 30 : 2);
}

}  // namespace
}  // namespace shade::models
