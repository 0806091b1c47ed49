// Llama, Mistral, Qwen2 and Qwen3 are one architecture with different numbers: a decoder with RMSNorm, rotary
// positions, grouped queries and SwiGLU. Qwen3 normalises the heads of queries and keys as well.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shade/base/json.h"
#include "shade/models/config_file.h"
#include "shade/models/sizes.h"
#include "shade/nn/positions.h"

namespace shade::models {

class Decoder;

std::vector<std::string> decoder_families();  // the values of model_type that are supported

struct DecoderConfig {
  std::string family = "llama";  // model_type; decides what config.json may say and what is written to it
  int64_t hidden = 0, layers = 0, heads = 0, kv_heads = 0, ffn = 0, vocab = 0;
  int64_t head_dim = 0;  // 0: hidden / heads
  double norm_eps = 1e-5;
  double init_std = 0.02;
  double rope_theta = 10000;
  std::optional<nn::RopeScaling> rope_scaling;
  bool tied = false;  // the head is the embedding
  bool qkv_bias = false, o_bias = false, mlp_bias = false;
  bool head_norms = false;               // every head of queries and of keys is normalised before it is rotated
  int64_t classes = 3;                   // of the classification head
  bool classes_stated = false;           // by a classifier's config.json or --num-classes; otherwise the data decides
  std::vector<std::string> class_names;  // a classifier's id2label, by number; empty: it has none
  int64_t padding = -1;                  // this token's embedding gets no gradient; -1: none
  bool classifier = false;               // architectures says ...ForSequenceClassification
  int64_t max_positions = 131072;
  int64_t window = 0;  // the longest sequence: above it attention would slide; 0: it never does
  // Fields as found that are nothing to us, but transformers needs them: which tokens begin and end a text, windows.
  Json kept = Json::object();

  int64_t head_size() const { return head_dim > 0 ? head_dim : hidden / heads; }
  // Throws UsageError naming the field, and the file if it comes from one.
  void check(const std::string& source = "") const;

  // Hugging Face's config.json, in the keys of transformers 4 and 5.
  static DecoderConfig from_json(const Json& json, const std::string& source);
  Json to_json() const;

  // For the registry.
  using Built = Decoder;
  static const std::map<std::string, DecoderConfig>& named();
  static bool describes(const Json& /*config*/) { return true; }  // what no other family does
  void resize(const SizeOverrides& s);
  int64_t& blocks() { return layers; }
  std::string sizes() const { return text(family, " ", hidden, " x ", layers); }
};

// Fields of a language model's config.json that are not implemented here.

// Throws UsageError for what changes the function that the weights compute, whatever the sequence.
void refuse_unsupported(const ConfigFile& file);

// sliding_window, or 4096 if it is not there; 0 if it is null.
int64_t stated_window(const ConfigFile& file);

// The shortest sliding window of `layers` layers: longer sequences are not supported. 0: there is none.
int64_t sliding_window(const ConfigFile& file, int64_t layers);

// What transformers would do in training alone, and is not done here: "attention_dropout 0.1".
std::vector<std::string> not_trained_with(const ConfigFile& file);

}  // namespace shade::models
