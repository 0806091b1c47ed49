// DiT: a diffusion transformer with adaLN-Zero (Peebles and Xie 2023). By default it learns its positions and predicts
// the noise alone; published checkpoints have fixed positions (sincos) and predict a variance too (learn_sigma).
#pragma once

#include <deque>
#include <map>

#include "shade/base/json.h"
#include "shade/models/model.h"
#include "shade/models/sizes.h"
#include "shade/nn/embedding.h"
#include "shade/nn/patch.h"
#include "shade/nn/positions.h"
#include "shade/nn/unit.h"

namespace shade::models {

class Dit;

struct DitConfig {
  int64_t hidden = 0, layers = 0, heads = 0;
  int64_t image = 256, patch = 8, channels = 3, classes = 1000;
  double mlp_ratio = 4;
  int64_t frequency_dim = 256;
  double label_dropout = 0.1;  // how often a training label is replaced by "no class"
  nn::Positions positions = nn::Positions::learned;
  bool learn_sigma = false;                // as many channels again, for the variance
  std::vector<std::string> class_names{};  // by number; empty: not known

  int64_t tokens() const { return (image / patch) * (image / patch); }
  int64_t out_channels() const { return learn_sigma ? 2 * channels : channels; }
  int64_t mlp() const { return static_cast<int64_t>(static_cast<double>(hidden) * mlp_ratio); }
  void check(const std::string& source = "") const;  // throws UsageError naming the field
  static DitConfig from_json(const Json& json, const std::string& source);
  Json to_json() const;

  // For the registry.
  using Built = Dit;
  static const std::map<std::string, DitConfig>& named();
  static bool describes(const Json& config) { return config.contains("patch_size"); }
  void resize(const SizeOverrides& s);
  void vary(const std::string& word, const std::string& name);  // dit-xl/2: the patch
  int64_t& blocks() { return layers; }
  std::string sizes() const { return text("dit ", hidden, " x ", layers); }
};

class Dit : public Model {
 public:
  Dit(DitConfig config, const ModelOptions& options);

  at::Tensor losses(const nn::Batch& batch) override;
  bool stops_gradients() const override { return config_.learn_sigma; }  // the variance's part doesn't train the noise
  at::Tensor outputs(const nn::Batch& batch) override;
  nn::Batch synthetic(const BatchShape& shape, uint64_t seed, at::ScalarType type) const override;
  std::optional<ImageTraits> image_traits() const override {
    return ImageTraits{config_.image, config_.channels, config_.classes, config_.label_dropout, config_.class_names};
  }
  int64_t positions(const nn::Weight& weight, const BatchShape& shape) const override;
  double attention_flops(const BatchShape& shape) const override;
  int64_t tokens(const BatchShape&) const override { return config_.tokens(); }
  std::string describe() const override;
  std::string config_json() const override { return config_.to_json().dump(); }
  std::string settings() const override { return to_json(options_); }

 private:
  struct Block {
    Block(nn::Parameters& parameters, const DitConfig& config, int64_t index);
    nn::UnitId unit;
    nn::Linear qkv, proj, fc1, fc2, modulation;
  };
  at::Tensor predict(const nn::Batch& batch);
  at::Tensor run_block(const Block& block, const at::Tensor& x, const at::Tensor& condition) const;

  DitConfig config_;
  ModelOptions options_;
  nn::UnitId embed_unit_, final_unit_;
  std::optional<nn::PatchEmbedding> patches_;
  std::optional<nn::Added> positions_;
  std::optional<nn::Linear> time_in_, time_out_;
  std::optional<nn::Embedding> labels_;
  std::deque<Block> blocks_;
  std::optional<nn::Linear> final_modulation_, final_linear_;
};

}  // namespace shade::models
