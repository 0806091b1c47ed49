#include "shade/models/decoder_config.h"

#include <algorithm>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/models/config_file.h"

namespace shade::models {
namespace {

// Where a family differs from the others. Biases are set by the config.json where it may, otherwise always or never.
struct Family {
  const char* name;     // model_type
  const char* classes;  // what transformers calls its classes: LlamaForCausalLM
  bool qkv_bias = false;
  bool attention_bias_key = false, mlp_bias_key = false;
  bool head_norms = false;
  bool window_key_decides = false;  // sliding_window is the only key of the window, and absent means 4096
  int64_t head_dim = 0;             // without the key; 0: hidden size / heads
};
constexpr Family kFamilies[] = {
    {.name = "llama", .classes = "Llama", .attention_bias_key = true, .mlp_bias_key = true},
    {.name = "mistral", .classes = "Mistral", .window_key_decides = true},
    {.name = "qwen2", .classes = "Qwen2", .qkv_bias = true},
    {.name = "qwen3", .classes = "Qwen3", .attention_bias_key = true, .head_norms = true, .head_dim = 128},
};

const Family& family_of(const std::string& name, const std::string& source) {
  for (const auto& family : kFamilies)
    if (family.name == name) return family;
  const auto names = decoder_families();
  throw UsageError(text(where(source), "model_type '", name, "' is not supported; expected one of ", join(names, ", "),
                        suggestion(name, names)));
}

std::optional<nn::RopeScaling> scaling_from(const std::optional<ConfigFile>& file) {
  if (!file) return std::nullopt;
  const auto kind = file->get<std::string>("rope_type", file->get<std::string>("type", "default"));
  if (kind == "default") return std::nullopt;
  SHADE_REQUIRE(kind == "llama3", file->source(), ": rope_type '", kind,
                "' is not supported; expected default or llama3");
  return nn::RopeScaling{.factor = file->need<double>("factor"),
                         .low_freq_factor = file->need<double>("low_freq_factor"),
                         .high_freq_factor = file->need<double>("high_freq_factor"),
                         .original_max_position = file->need<int64_t>("original_max_position_embeddings")};
}

void check_scaling(const nn::RopeScaling& scaling, const std::string& source) {
  for (const auto& [key, value] : {std::pair("factor", scaling.factor),
                                   {"low_freq_factor", scaling.low_freq_factor},
                                   {"high_freq_factor", scaling.high_freq_factor}})
    require_positive(source, key, value);
  SHADE_REQUIRE(scaling.low_freq_factor < scaling.high_freq_factor, where(source), "low_freq_factor is ",
                scaling.low_freq_factor, " and high_freq_factor ", scaling.high_freq_factor,
                "; expected the low one below the high one");
  require_count(source, {"original_max_position_embeddings", "", scaling.original_max_position, kMostRows});
}

}  // namespace

std::vector<std::string> decoder_families() {
  std::vector<std::string> out;
  for (const auto& family : kFamilies) out.emplace_back(family.name);
  return out;
}

void DecoderConfig::check(const std::string& source) const {
  for (const auto& count : {Count{"hidden_size", "--hidden-dim", hidden, kMostWidth},
                            {"num_hidden_layers", "--num-layers", layers, kMostLayers},
                            {"num_attention_heads", "--num-heads", heads, kMostWidth},
                            {"num_key_value_heads", "--num-kv-heads", kv_heads, kMostWidth},
                            {"intermediate_size", "--ffn-dim", ffn, kMostWidth},
                            {"vocab_size", "--vocab-size", vocab, kMostRows},
                            {"number of classes", "--num-classes", classes, kMostRows},
                            {"max_position_embeddings", "", max_positions, kMostRows}})
    require_count(source, count);
  SHADE_REQUIRE(heads % kv_heads == 0, where(source), heads, " heads don't divide by ", kv_heads, " key-value heads");
  SHADE_REQUIRE(head_dim > 0 || hidden % heads == 0, where(source), "hidden size ", hidden, " doesn't divide by ",
                heads, " heads; choose a multiple of their number");
  SHADE_REQUIRE(head_size() <= kMostWidth / heads, where(source), heads, " heads of ", head_size(),
                " are too wide; expected at most ", kMostWidth, " together");
  SHADE_REQUIRE(head_size() % 2 == 0, where(source), "a head of ", head_size(),
                " can't be rotated in pairs; expected an even size");
  require_positive(source, "rms_norm_eps", norm_eps);
  require_positive(source, "rope_theta", rope_theta);
  SHADE_REQUIRE(init_std >= 0, where(source), "initializer_range is ", init_std, "; expected at least 0");
  if (rope_scaling) check_scaling(*rope_scaling, source);
}

DecoderConfig DecoderConfig::from_json(const Json& json, const std::string& source) {
  const ConfigFile file(json, source);
  DecoderConfig c;
  c.family = file.need<std::string>("model_type");
  const auto& family = family_of(c.family, source);
  refuse_unsupported(file);
  c.hidden = file.need<int64_t>("hidden_size");
  c.layers = file.need<int64_t>("num_hidden_layers");
  c.heads = file.need<int64_t>("num_attention_heads");
  c.kv_heads = file.get("num_key_value_heads", c.heads);
  c.ffn = file.need<int64_t>("intermediate_size");
  c.vocab = file.need<int64_t>("vocab_size");
  c.head_dim = file.get("head_dim", family.head_dim);
  if (file.has("head_dim")) require_count(source, {"head_dim", "", c.head_dim, kMostWidth});
  c.norm_eps = file.get("rms_norm_eps", 1e-6);
  c.init_std = file.get("initializer_range", 0.02);
  c.max_positions = file.get<int64_t>("max_position_embeddings", 2048);
  c.tied = file.get("tie_word_embeddings", false);
  c.o_bias = file.get("attention_bias", false) && family.attention_bias_key;
  c.qkv_bias = family.qkv_bias || c.o_bias;
  c.mlp_bias = file.get("mlp_bias", false) && family.mlp_bias_key;
  c.head_norms = family.head_norms;
  c.padding = file.get<int64_t>("pad_token_id", -1);
  // transformers 5 gathers both in rope_parameters; 4 had rope_theta beside rope_scaling.
  const auto rope = file.object("rope_parameters");
  c.rope_theta = (rope ? *rope : file).get("rope_theta", 10000.0);
  c.rope_scaling = scaling_from(rope ? rope : file.object("rope_scaling"));
  c.window = family.window_key_decides ? stated_window(file) : sliding_window(file, c.layers);
  for (const char* key : {"bos_token_id", "eos_token_id"})
    if (json.contains(key)) c.kept[key] = json[key];
  for (const char* key : {"use_sliding_window", "sliding_window", "max_window_layers", "layer_types"})
    if (c.window > 0 && json.contains(key)) c.kept[key] = json[key];
  if (const auto names = json.find("architectures"); names != json.end() && names->is_array() && !names->empty())
    c.classifier = (*names)[0].dump().find("SequenceClassification") != std::string::npos;
  c.classes_stated = c.classifier;
  if (const auto labels = file.object("id2label")) {
    c.classes = static_cast<int64_t>(labels->size());
    if (c.classifier) c.class_names = file.class_names();
  } else if (file.has("num_labels")) {
    c.classes = file.need<int64_t>("num_labels");
  } else if (c.classifier) {
    c.classes = 2;  // transformers writes no labels if they are its default
  }
  c.check(source);
  SHADE_REQUIRE(c.padding >= -1 && c.padding < c.vocab, source, ": pad_token_id is ", c.padding,
                "; expected a token of the vocabulary of ", c.vocab, ", or null");
  return c;
}

Json DecoderConfig::to_json() const {
  const auto& of = family_of(family, "");
  Json out{{"architectures", {std::string(of.classes) + (classifier ? "ForSequenceClassification" : "ForCausalLM")}},
           {"model_type", family},
           {"hidden_act", "silu"},
           {"hidden_size", hidden},
           {"num_hidden_layers", layers},
           {"num_attention_heads", heads},
           {"num_key_value_heads", kv_heads},
           {"head_dim", head_size()},
           {"intermediate_size", ffn},
           {"vocab_size", vocab},
           {"rms_norm_eps", norm_eps},
           {"initializer_range", init_std},
           {"max_position_embeddings", max_positions},
           {"tie_word_embeddings", tied},
           {"rope_theta", rope_theta}};
  if (of.attention_bias_key) out["attention_bias"] = qkv_bias;
  if (of.mlp_bias_key) out["mlp_bias"] = mlp_bias;
  if (of.window_key_decides) out["sliding_window"] = window > 0 ? Json(window) : Json();
  if (rope_scaling) {
    out["rope_scaling"] = {{"rope_type", "llama3"},
                           {"factor", rope_scaling->factor},
                           {"low_freq_factor", rope_scaling->low_freq_factor},
                           {"high_freq_factor", rope_scaling->high_freq_factor},
                           {"original_max_position_embeddings", rope_scaling->original_max_position}};
  }
  out.update(kept);
  if (padding >= 0) out["pad_token_id"] = padding;
  if (classifier)
    for (int64_t i = 0; i < classes; ++i)
      out["id2label"][std::to_string(i)] =
          class_names.empty() ? text("LABEL_", i) : class_names[static_cast<size_t>(i)];
  return out;
}

namespace {

constexpr const char* kDropouts[] = {"attention_dropout", "hidden_dropout", "resid_pdrop", "embd_pdrop",
                                     "classifier_dropout"};

void refuse_partial_rotation(const ConfigFile& file) {
  const auto share = file.get("partial_rotary_factor", 1.0);
  SHADE_REQUIRE(share == 1, file.source(), ": partial_rotary_factor is ", share, "; expected 1, or none");
}

}  // namespace

void refuse_unsupported(const ConfigFile& file) {
  const auto activation = file.get<std::string>("hidden_act", "silu");
  SHADE_REQUIRE(activation == "silu" || activation == "swish", file.source(), ": hidden_act '", activation,
                "' is not supported; expected silu");
  SHADE_REQUIRE(!file.has("quantization_config"), file.source(),
                ": quantization_config is set, and quantized weights are not supported; expected weights in fp32, bf16 "
                "or fp16");
  refuse_partial_rotation(file);
  for (const char* key : {"rope_parameters", "rope_scaling"})
    if (const auto rope = file.object(key)) refuse_partial_rotation(*rope);
}

int64_t stated_window(const ConfigFile& file) {
  if (file.is_null("sliding_window")) return 0;
  constexpr int64_t kWindow = 4096;  // transformers' default
  const auto window = file.get("sliding_window", kWindow);
  require_count(file.source(), {"sliding_window", "", window, kMostRows});
  return window;
}

int64_t sliding_window(const ConfigFile& file, int64_t layers) {
  if (!file.get("use_sliding_window", false)) return 0;
  constexpr int64_t kFirstLayer = 28;  // transformers' default
  const auto window = stated_window(file);
  const auto types = file.texts("layer_types");
  const bool slides = types.empty() ? file.get("max_window_layers", kFirstLayer) < layers
                                    : std::find(types.begin(), types.end(), "sliding_attention") != types.end();
  return slides ? window : 0;
}

std::vector<std::string> not_trained_with(const ConfigFile& file) {
  std::vector<std::string> out;
  for (const char* key : kDropouts)
    if (const auto share = file.get(key, 0.0); share != 0) out.push_back(text(key, " ", share));
  const auto problem = file.get<std::string>("problem_type", "single_label_classification");
  if (problem != "single_label_classification") out.push_back(text("problem_type ", problem));
  return out;
}

namespace {

// Sizes that several names have, or differ from by a little.
DecoderConfig llama3_8b() {
  return {.hidden = 4096,
          .layers = 32,
          .heads = 32,
          .kv_heads = 8,
          .ffn = 14336,
          .vocab = 128256,
          .rope_theta = 500000,
          .max_positions = 8192};
}

nn::RopeScaling llama3_scaling(double factor) {
  return {.factor = factor, .low_freq_factor = 1, .high_freq_factor = 4, .original_max_position = 8192};
}

DecoderConfig llama31_8b() {
  auto config = llama3_8b();
  config.rope_scaling = llama3_scaling(8);
  config.max_positions = 131072;
  return config;
}

DecoderConfig qwen2_15b() {
  return {.family = "qwen2",
          .hidden = 1536,
          .layers = 28,
          .heads = 12,
          .kv_heads = 2,
          .ffn = 8960,
          .vocab = 151936,
          .norm_eps = 1e-6,
          .rope_theta = 1e6,
          .tied = true,
          .qkv_bias = true};
}

DecoderConfig qwen3(int64_t hidden, int64_t layers, int64_t heads, int64_t ffn, bool tied) {
  return {.family = "qwen3",
          .hidden = hidden,
          .layers = layers,
          .heads = heads,
          .kv_heads = 8,
          .ffn = ffn,
          .vocab = 151936,
          .head_dim = 128,
          .norm_eps = 1e-6,
          .rope_theta = 1e6,
          .tied = tied,
          .head_norms = true,
          .max_positions = 40960};
}

DecoderConfig nano(DecoderConfig config) {  // of a family, as small as tests like it
  config.hidden = 32;
  config.layers = 2;
  config.heads = 4;
  config.kv_heads = 2;
  config.ffn = 56;
  config.vocab = 256;
  return config;
}

}  // namespace

const std::map<std::string, DecoderConfig>& DecoderConfig::named() {
  static const std::map<std::string, DecoderConfig> table{
      {"llama3-8b", llama3_8b()},
      {"llama3.1-8b", llama31_8b()},
      {"llama3.2-1b",
       {.hidden = 2048,
        .layers = 16,
        .heads = 32,
        .kv_heads = 8,
        .ffn = 8192,
        .vocab = 128256,
        .head_dim = 64,
        .rope_theta = 500000,
        .rope_scaling = llama3_scaling(32),
        .tied = true}},
      {"mistral-7b",  // v0.3, which has no window
       {.family = "mistral",
        .hidden = 4096,
        .layers = 32,
        .heads = 32,
        .kv_heads = 8,
        .ffn = 14336,
        .vocab = 32768,
        .rope_theta = 1e6,
        .max_positions = 32768}},
      {"qwen3-0.6b", qwen3(1024, 28, 16, 3072, true)},
      {"qwen3-1.7b", qwen3(2048, 28, 16, 6144, true)},
      {"qwen3-4b", qwen3(2560, 36, 32, 9728, true)},
      {"qwen3-8b", qwen3(4096, 36, 32, 12288, false)},
      {"qwen2-1.5b", qwen2_15b()},
      {"qwen2.5-1.5b", qwen2_15b()},
      {"llama-nano", nano({.rope_theta = 500000})},
      {"qwen2-nano", nano({.family = "qwen2", .norm_eps = 1e-6, .rope_theta = 1e6, .tied = true, .qkv_bias = true})},
      {"mistral-nano", nano({.family = "mistral"})},
      {"qwen3-nano",
       nano(
           {.family = "qwen3", .head_dim = 12, .norm_eps = 1e-6, .rope_theta = 1e6, .tied = true, .head_norms = true})},
  };
  return table;
}

void DecoderConfig::resize(const SizeOverrides& s) {
  refuse_dit_choices(s);
  if (s.hidden_dim > 0 || s.num_heads > 0) head_dim = 0;
  replace(hidden, s.hidden_dim);
  replace(layers, s.num_layers);
  replace(heads, s.num_heads);
  replace(kv_heads, s.num_kv_heads);
  replace(ffn, s.ffn_dim);
  replace(vocab, s.vocab_size);
  replace(classes, s.num_classes);
  classes_stated = classes_stated || s.num_classes > 0;
  if (std::ssize(class_names) != classes) class_names.clear();
}

}  // namespace shade::models
