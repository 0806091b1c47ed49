#include "shade/models/decoder_config.h"

namespace shade::models {

const std::map<std::string, DecoderConfig>& DecoderConfig::named() {
  static const nn::RopeScaling llama31{
      .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_max_position = 8192};
  static const nn::RopeScaling llama32{
      .factor = 32, .low_freq_factor = 1, .high_freq_factor = 4, .original_max_position = 8192};
  static const DecoderConfig qwen15{.family = "qwen2",
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
  static const DecoderConfig llama3{.hidden = 4096,
                                    .layers = 32,
                                    .heads = 32,
                                    .kv_heads = 8,
                                    .ffn = 14336,
                                    .vocab = 128256,
                                    .rope_theta = 500000,
                                    .max_positions = 8192};
  static const DecoderConfig longer = [] {  // Llama 3.1: the same for 131072 positions
    auto config = llama3;
    config.rope_scaling = llama31;
    config.max_positions = 131072;
    return config;
  }();
  static const DecoderConfig qwen3{.family = "qwen3",
                                   .hidden = 1024,
                                   .layers = 28,
                                   .heads = 16,
                                   .kv_heads = 8,
                                   .ffn = 3072,
                                   .vocab = 151936,
                                   .head_dim = 128,
                                   .norm_eps = 1e-6,
                                   .rope_theta = 1e6,
                                   .tied = true,
                                   .head_norms = true,
                                   .max_positions = 40960};
  static const auto wider = [](int64_t hidden, int64_t layers, int64_t heads, int64_t ffn, bool tied) {
    auto config = qwen3;
    config.hidden = hidden;
    config.layers = layers;
    config.heads = heads;
    config.ffn = ffn;
    config.tied = tied;
    return config;
  };
  static const auto nano = [](DecoderConfig config) {  // of a family, as small as tests like it
    config.hidden = 32;
    config.layers = 2;
    config.heads = 4;
    config.kv_heads = 2;
    config.ffn = 56;
    config.vocab = 256;
    return config;
  };
  static const std::map<std::string, DecoderConfig> table{
      {"llama3-8b", llama3},
      {"llama3.1-8b", longer},
      {"llama3.2-1b",
       {.hidden = 2048,
        .layers = 16,
        .heads = 32,
        .kv_heads = 8,
        .ffn = 8192,
        .vocab = 128256,
        .head_dim = 64,
        .rope_theta = 500000,
        .rope_scaling = llama32,
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
      {"qwen3-0.6b", qwen3},
      {"qwen3-1.7b", wider(2048, 28, 16, 6144, true)},
      {"qwen3-4b", wider(2560, 36, 32, 9728, true)},
      {"qwen3-8b", wider(4096, 36, 32, 12288, false)},
      {"qwen2-1.5b", qwen15},
      {"qwen2.5-1.5b", qwen15},
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
