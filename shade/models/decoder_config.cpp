#include "shade/models/decoder_config.h"

#include "shade/base/error.h"

namespace shade::models {
namespace {

// A typed key of a config.json, with the file's name in every complaint.
class Reader {
 public:
  Reader(const Json& json, const std::string& source) : json_(json), source_(source) {}

  template <class T>
  T get(const char* key, T otherwise) const {
    const auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? otherwise : convert<T>(key, *found);
  }
  template <class T>
  T need(const char* key) const {
    const auto found = json_.find(key);
    SHADE_REQUIRE(found != json_.end() && !found->is_null(), source_, ": key '", key, "' is missing");
    return convert<T>(key, *found);
  }
  const Json* object(const char* key) const {
    const auto found = json_.find(key);
    return found != json_.end() && found->is_object() ? &*found : nullptr;
  }

 private:
  template <class T>
  T convert(const char* key, const Json& value) const {
    try {
      return value.get<T>();
    } catch (const Json::exception&) {
      throw UsageError(text(source_, ": key '", key, "' is ", value.dump(), "; expected a ",
                            std::is_same_v<T, std::string> ? "text"
                            : std::is_same_v<T, bool>      ? "switch"
                                                           : "number"));
    }
  }
  const Json& json_;
  const std::string& source_;
};

std::optional<nn::RopeScaling> scaling_from(const Json* json, const std::string& source) {
  if (json == nullptr) return std::nullopt;
  const Reader r(*json, source);
  const auto kind = r.get<std::string>("rope_type", r.get<std::string>("type", "default"));
  if (kind == "default") return std::nullopt;
  SHADE_REQUIRE(kind == "llama3", source, ": rope_type '", kind, "' is not supported; expected default or llama3");
  return nn::RopeScaling{.factor = r.need<double>("factor"),
                         .low_freq_factor = r.need<double>("low_freq_factor"),
                         .high_freq_factor = r.need<double>("high_freq_factor"),
                         .original_max_position = r.need<int64_t>("original_max_position_embeddings")};
}

}  // namespace

void DecoderConfig::check() const {
  const auto positive = [](const char* what, int64_t value) {
    SHADE_REQUIRE(value > 0, what, " is ", value, "; expected at least 1");
  };
  positive("hidden size", hidden);
  positive("number of layers", layers);
  positive("number of heads", heads);
  positive("number of key-value heads", kv_heads);
  positive("feed-forward size", ffn);
  positive("vocabulary", vocab);
  positive("number of classes", classes);
  SHADE_REQUIRE(heads % kv_heads == 0, heads, " heads don't divide by ", kv_heads, " key-value heads");
  SHADE_REQUIRE(head_dim > 0 || hidden % heads == 0, "hidden size ", hidden, " doesn't divide by ", heads, " heads");
  SHADE_REQUIRE(head_size() % 2 == 0, "a head of ", head_size(), " can't be rotated in pairs; expected an even size");
}

DecoderConfig DecoderConfig::from_hf(const Json& json, const std::string& source) {
  const Reader r(json, source);
  DecoderConfig c;
  c.family = r.need<std::string>("model_type");
  SHADE_REQUIRE(c.family == "llama" || c.family == "qwen2", source, ": model_type '", c.family,
                "' is not supported; expected llama or qwen2");
  const auto activation = r.get<std::string>("hidden_act", "silu");
  SHADE_REQUIRE(activation == "silu", source, ": hidden_act '", activation, "' is not supported; expected silu");
  SHADE_REQUIRE(!r.get("use_sliding_window", false), source, ": sliding-window attention is not supported");
  c.hidden = r.need<int64_t>("hidden_size");
  c.layers = r.need<int64_t>("num_hidden_layers");
  c.heads = r.need<int64_t>("num_attention_heads");
  c.kv_heads = r.get("num_key_value_heads", c.heads);
  c.ffn = r.need<int64_t>("intermediate_size");
  c.vocab = r.need<int64_t>("vocab_size");
  c.head_dim = r.get<int64_t>("head_dim", 0);
  c.norm_eps = r.get("rms_norm_eps", 1e-6);
  c.init_std = r.get("initializer_range", 0.02);
  c.max_positions = r.get<int64_t>("max_position_embeddings", 2048);
  c.tied = r.get("tie_word_embeddings", false);
  const bool qwen = c.family == "qwen2";
  c.qkv_bias = qwen || r.get("attention_bias", false);
  c.o_bias = !qwen && r.get("attention_bias", false);
  c.mlp_bias = !qwen && r.get("mlp_bias", false);
  c.padding = r.get<int64_t>("pad_token_id", -1);
  // transformers 5 gathers both in rope_parameters; 4 had rope_theta beside rope_scaling.
  const auto* rope = r.object("rope_parameters");
  const double default_theta = 10000;
  c.rope_theta =
      rope != nullptr ? Reader(*rope, source).get("rope_theta", default_theta) : r.get("rope_theta", default_theta);
  c.rope_scaling = scaling_from(rope != nullptr ? rope : r.object("rope_scaling"), source);
  for (const char* key : {"bos_token_id", "eos_token_id"})
    if (json.contains(key)) c.text_ends[key] = json[key];
  if (const auto names = json.find("architectures"); names != json.end() && names->is_array() && !names->empty())
    c.classifier = (*names)[0].dump().find("SequenceClassification") != std::string::npos;
  if (const auto* labels = r.object("id2label"))
    c.classes = static_cast<int64_t>(labels->size());
  else if (c.classifier)
    c.classes = 2;  // transformers writes no labels if they are its default
  c.check();
  return c;
}

Json DecoderConfig::to_hf() const {
  const std::string prefix = family == "qwen2" ? "Qwen2" : "Llama";
  Json out{{"architectures", {prefix + (classifier ? "ForSequenceClassification" : "ForCausalLM")}},
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
  if (family == "llama") {
    out["attention_bias"] = qkv_bias;
    out["mlp_bias"] = mlp_bias;
  }
  if (rope_scaling) {
    out["rope_scaling"] = {{"rope_type", "llama3"},
                           {"factor", rope_scaling->factor},
                           {"low_freq_factor", rope_scaling->low_freq_factor},
                           {"high_freq_factor", rope_scaling->high_freq_factor},
                           {"original_max_position_embeddings", rope_scaling->original_max_position}};
  }
  out.update(text_ends);
  if (padding >= 0) out["pad_token_id"] = padding;
  if (classifier)
    for (int64_t i = 0; i < classes; ++i) out["id2label"][std::to_string(i)] = text("LABEL_", i);
  return out;
}

}  // namespace shade::models
