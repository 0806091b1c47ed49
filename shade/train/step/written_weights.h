// Gradients on their way to the runtime, and proof that a method forgot no weight.
#pragma once

#include <vector>

#include "shade/nn/gradients.h"
#include "shade/optim/optimizer.h"
#include "shade/shard/runtime.h"

namespace shade::train {

class WrittenWeights : public nn::GradientSink {
 public:
  // Both must outlive it.
  WrittenWeights(const nn::Parameters& parameters, nn::GradientSink& sink) : parameters_(&parameters), sink_(&sink) {}

  void begin();  // a micro-step
  // Throws UsageError naming a trainable weight whose gradient the method never wrote, or (`says_complete`) never
  // declared complete: its part of the sum would be missing, and nothing would tell.
  void require_all(bool says_complete) const;

  // Both throw UsageError once the weight is complete: its reduction may be under way.
  at::Tensor buffer(const nn::Weight& weight) override;
  void mark_written(const nn::Weight& weight) override;

  bool written(const nn::Weight& weight) const override { return sink_->written(weight); }
  void complete(const nn::Weight& weight) override;

 private:
  struct Seen {
    bool written = false, completed = false;
  };
  void require_open(const nn::Weight& weight) const;

  const nn::Parameters* parameters_;
  nn::GradientSink* sink_;
  std::vector<Seen> seen_;  // by WeightId, in this micro-step
};

// The weights that a run is judged by and hands on.

// While it lives, the trained weights are their moving average, if the optimizer keeps one (--ema); then they are
// themselves again, to the bit. Between two steps; nothing is sent. Both must outlive it.
class AveragedWeights {
 public:
  AveragedWeights(shard::Runtime& runtime, optim::Optimizer& optimizer);
  ~AveragedWeights();
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  void exchange();

  shard::Runtime* runtime_;
  optim::Optimizer* optimizer_;
};

}  // namespace shade::train
