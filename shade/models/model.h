// A model: single-device code built from layers. Sharding and privacy come from outside, through its Parameters.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "shade/base/json.h"
#include "shade/nn/attention.h"
#include "shade/nn/batch.h"
#include "shade/nn/parameters.h"
#include "shade/nn/projection.h"

namespace shade::models {

enum class Task { automatic, classify, lm, denoise, regress };
inline std::span<const Name<Task>> names_of(Task) {
  static constexpr Name<Task> kNames[] = {{"auto", Task::automatic},
                                          {"classify", Task::classify},
                                          {"lm", Task::lm},
                                          {"denoise", Task::denoise},
                                          {"regress", Task::regress}};
  return kNames;
}

enum class Checkpointing { none, block };
inline std::span<const Name<Checkpointing>> names_of(Checkpointing) {
  static constexpr Name<Checkpointing> kNames[] = {{"none", Checkpointing::none}, {"block", Checkpointing::block}};
  return kNames;
}

// What the loss of a language model is a mean of. token: all counted tokens of a batch; a sample's loss is then a sum,
// and whoever has the whole batch divides. record: each sample's loss is the mean over its tokens.
enum class LossMean { automatic, token, record };
inline std::span<const Name<LossMean>> names_of(LossMean) {
  static constexpr Name<LossMean> kNames[] = {
      {"auto", LossMean::automatic}, {"token", LossMean::token}, {"record", LossMean::record}};
  return kNames;
}

// What is independent of the architecture.
struct ModelOptions {
  Task task = Task::automatic;
  nn::AttentionKernel attention = nn::AttentionKernel::flash;
  Checkpointing checkpointing = Checkpointing::none;
  std::optional<nn::LoraOptions> lora;  // adapters on the chosen linears, everything else frozen
  std::vector<std::string> lora_targets{"q_proj", "v_proj"};
  LossMean loss_mean = LossMean::record;  // lm
};

// Sizes of a made-up batch.
struct BatchShape {
  int64_t samples = 2;
  int64_t seq_length = 128;
};

class Model {
 public:
  virtual ~Model() = default;

  // One loss per sample: [B]; nobody averages in secret.
  virtual at::Tensor losses(const nn::Batch& batch) = 0;
  // How many tokens each sample's loss counts: [B] int64; undefined if it is no language model's.
  virtual at::Tensor loss_tokens(const nn::Batch& /*batch*/) const { return {}; }
  // losses() are sums over tokens, and a batch's mean is over its tokens; otherwise over its samples.
  virtual bool sums_tokens() const { return false; }

  // Logits [B, T, V] or [B, C], or the predicted noise: for tests and evaluation, without a graph.
  virtual at::Tensor outputs(const nn::Batch& batch) = 0;

  // Random data of the right shapes, the same for the same seed.
  virtual nn::Batch synthetic(const BatchShape& shape, uint64_t seed, at::ScalarType type) const = 0;

  // Floating-point operations of forward for one sample, counting products only.
  virtual double forward_flops(const BatchShape& shape) const = 0;
  virtual int64_t tokens(const BatchShape& shape) const = 0;  // per sample: text positions or image patches
  virtual std::string describe() const = 0;

  // The config.json of its folder, from which make_model() makes it again.
  virtual Json config_json() const = 0;

  nn::Parameters& parameters() { return parameters_; }
  const nn::Parameters& parameters() const { return parameters_; }

 protected:
  nn::Parameters parameters_;
};

}  // namespace shade::models
