// Llama, Mistral, Qwen2 and Qwen3. Weight names are Hugging Face's.
#pragma once

#include <deque>
#include <functional>

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
  at::Tensor next_logits(const at::Tensor& ids_BT, nn::KvCache& past) override;
  nn::Batch synthetic(const BatchShape& shape, uint64_t seed, at::ScalarType type) const override;
  std::optional<TextTraits> text_traits() const override;
  int64_t positions(const nn::Weight& weight, const BatchShape& shape) const override;
  double attention_flops(const BatchShape& shape) const override;
  std::string describe() const override;
  std::string config_json() const override { return config_.to_json().dump(); }
  std::string settings() const override { return to_json(options_); }

  const DecoderConfig& config() const { return config_; }

 private:
  struct Block {
    Block(nn::Parameters& parameters, const DecoderConfig& config, const ModelOptions& options, int64_t index);
    nn::UnitId unit;
    nn::RmsNorm attention_norm;
    nn::Projection q, k, v, o;
    std::optional<nn::RmsNorm> q_norm, k_norm;  // over a head
    nn::RmsNorm mlp_norm;
    nn::Projection gate, up, down;
  };
  struct Head {  // what differs between the tasks
    std::optional<nn::Linear> score, lm_head;
  };

  // What all positions of a batch share on their way through the blocks.
  struct Walk {
    nn::RopeTable rope;
    std::vector<int64_t> runs;    // AttentionOptions
    nn::KvCache* past = nullptr;  // generation: what was read before, which is added to
  };
  // The hidden states before the last norm.
  at::Tensor hidden(const nn::Batch& batch, nn::KvCache* past = nullptr);
  at::Tensor run_block(size_t index, const at::Tensor& x, const Walk& walk) const;
  // Runs `body` while the weights of the head's unit and, if the head is tied, of the embedding's are at hand.
  at::Tensor in_head(const at::Tensor& h_BTD, const std::function<at::Tensor(const at::Tensor&)>& body) const;
  bool tied_head() const { return options_.task == Task::lm && config_.tied; }
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
