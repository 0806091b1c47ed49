// One logical training step: where model, sharding, privacy and optimizer meet.
#pragma once

#include <span>

#include "shade/models/model.h"
#include "shade/optim/optimizer.h"
#include "shade/optim/schedule.h"
#include "shade/privacy/clip/method.h"
#include "shade/privacy/noise.h"
#include "shade/shard/runtime.h"
#include "shade/train/fixed_shapes.h"

namespace shade::train {

struct StepRecord {
  double loss = 0;  // mean over all samples of all ranks; not private
  double learning_rate = 0;
  double gradient_norm = 0;     // of the mean gradient; 0 if nobody asked for clipping it
  privacy::ClipCounts samples;  // of all ranks; not private
  double clip_norm = 0;         // of a private step
  bool stop = false;            // some rank asked for it
};

struct StepOptions {
  double grad_clip = 0;    // global norm, for runs that are not private; 0: none
  privacy::DpConfig dp{};  // dp = none: not private
  // Of the noise. Without a key the ranks agree on one: from the system, or from dp.noise_seed.
  std::optional<privacy::NoiseKey> key{};
  uint64_t incarnation = 0;
  // A private step in bf16 computes every micro-batch with so many samples: shorter ones get blank samples, which count
  // nowhere, longer ones are refused (train/fixed_shapes.h). 0: as they come, for gradients that nothing is trained
  // with.
  int64_t fixed_samples = 0;
};

class Step {
 public:
  // All must outlive it. Takes over the model's tap. Collective if private: the ranks agree on the noise key.
  Step(models::Model& model, shard::Runtime& runtime, optim::Optimizer& optimizer, optim::Schedule schedule,
       StepOptions options = {});
  ~Step();

  // Every rank brings the same number of micro-batches; their sizes may differ, and be 0. The sum of the gradients is
  // divided by `divisor`: the number of samples of all ranks together; in a private run a public constant. `stop` is
  // this rank's wish to end after this step; all ranks learn of it in the record, without another message.
  StepRecord run(std::span<const nn::Batch> micro_batches, double divisor, bool stop = false);

  // The first half: the (clipped) summed gradient is with its owners, without noise, nothing is updated. Returns the
  // sum of this rank's losses.
  double gradients(std::span<const nn::Batch> micro_batches);

  // The second half of a private step's gradient. Each element gets noise once, from the rank that owns it.
  void add_noise() { add_noise(runtime_->shards()); }

  privacy::Method* method() { return method_.get(); }  // null: not private

 private:
  // Not private: a weight's gradient goes straight to its buffer.
  struct Plain : nn::GradientTap {
    explicit Plain(nn::GradientSink& s) : sink(&s) {}
    void take(nn::LayerGrad grad) override { nn::add_gradient(grad, *sink); }
    nn::GradientSink* sink;
  };

  std::vector<nn::Batch> split(std::span<const nn::Batch> micro_batches) const;
  at::Tensor micro_step(const nn::Batch& present);
  void add_noise(std::span<const shard::LocalShard> shards);
  void backward(const char* phase, const at::Tensor& objective, shard::BackwardOptions options);
  void require_separate(std::span<const nn::Batch> batches);

  models::Model* model_;
  shard::Runtime* runtime_;
  optim::Optimizer* optimizer_;
  optim::Schedule schedule_;
  StepOptions options_;
  Plain plain_;
  std::unique_ptr<privacy::Method> method_;
  std::optional<FixedShapes> shapes_;  // of private steps in bf16
  std::optional<privacy::Noise> noise_;
  bool separate_ = false;  // samples were seen not to mix
};

// The owned shards as an optimizer sees them.
std::vector<optim::Slot> slots_of(std::span<const shard::LocalShard> shards);

}  // namespace shade::train
