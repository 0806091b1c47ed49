// Llama and Qwen2. Weight names are Hugging Face's.
#pragma once

#include <deque>

#include "shade/models/decoder_config.h"
#include "shade/models/model.h"
#include "shade/nn/embedding.h"
#include "shade/nn/norm.h"
#include "shade/nn/unit.h"

namespace shade::models {

class Decoder : public Model {
 public:
  Decoder(DecoderConfig config, const ModelOptions& options);

  at::Tensor losses(const nn::Batch& batch) override;
  at::Tensor loss_tokens(const nn::Batch& batch) const override;
  bool sums_tokens() const override;
  at::Tensor outputs(const nn::Batch& batch) override;
  nn::Batch synthetic(const BatchShape& shape, uint64_t seed, at::ScalarType type) const override;
  std::optional<TextTraits> text_traits() const override;
  int64_t positions(const nn::Weight& weight, const BatchShape& shape) const override;
  double attention_flops(const BatchShape& shape) const override;
  std::string describe() const override;
  Json config_json() const override { return config_.to_json(); }
  Json settings() const override { return to_json(options_); }

  const DecoderConfig& config() const { return config_; }

 private:
  struct Block {
    Block(nn::Parameters& parameters, const DecoderConfig& config, const ModelOptions& options, int64_t index);
    nn::UnitId unit;
    nn::RmsNorm attention_norm;
    nn::Projection q, k, v, o;
    nn::RmsNorm mlp_norm;
    nn::Projection gate, up, down;
  };
  struct Head {  // what differs between the tasks
    std::optional<nn::Linear> score, lm_head;
  };

  // The hidden states after the last norm, inside of the head's unit.
  at::Tensor hidden(const nn::Batch& batch);
  at::Tensor run_block(const Block& block, const at::Tensor& x, const nn::RopeTable& rope,
                       const std::vector<int64_t>& runs) const;
  const nn::Weight& lm_weight() const;
  static at::Tensor targets(const nn::Batch& batch);  // lm: what each position must predict
  at::Tensor class_logits(const at::Tensor& h_BTD, const nn::Batch& batch) const;

  DecoderConfig config_;
  ModelOptions options_;
  nn::UnitId embed_unit_, head_unit_;
  std::optional<nn::Embedding> embed_;
  std::deque<Block> blocks_;
  std::optional<nn::RmsNorm> norm_;
  Head head_;
};

}  // namespace shade::models
