// One logical training step: where model, sharding and optimizer meet.
#pragma once

#include <span>

#include "shade/models/model.h"
#include "shade/optim/optimizer.h"
#include "shade/optim/schedule.h"
#include "shade/shard/runtime.h"

namespace shade::train {

struct StepRecord {
  double loss = 0;  // mean over all samples of all ranks
  double learning_rate = 0;
  double gradient_norm = 0;  // of the mean gradient; 0 if nobody asked for clipping
};

struct StepOptions {
  double grad_clip = 0;  // global norm, for runs that are not private; 0: none
};

class Step {
 public:
  // All must outlive it. Takes over the model's tap.
  Step(models::Model& model, shard::Runtime& runtime, optim::Optimizer& optimizer, optim::Schedule schedule,
       StepOptions options = {});
  ~Step();

  // Every rank brings the same number of micro-batches; their sizes may differ, and be 0. Gradients are divided by
  // `samples`, the number of all ranks together.
  StepRecord run(std::span<const nn::Batch> micro_batches, int64_t samples);

  // The first half: the summed gradient is with its owners, nothing is updated. Returns the sum of this rank's losses.
  double gradients(std::span<const nn::Batch> micro_batches);

 private:
  // Not private: a weight's gradient goes straight to its buffer.
  struct Plain : nn::GradientTap {
    explicit Plain(nn::GradientSink& s) : sink(&s) {}
    void take(nn::LayerGrad grad) override { nn::add_gradient(grad, *sink); }
    nn::GradientSink* sink;
  };

  models::Model* model_;
  shard::Runtime* runtime_;
  optim::Optimizer* optimizer_;
  optim::Schedule schedule_;
  StepOptions options_;
  Plain tap_;
};

// The owned shards as an optimizer sees them.
std::vector<optim::Slot> slots_of(std::span<const shard::LocalShard> shards);

}  // namespace shade::train
