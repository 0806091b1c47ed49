// The weights that a run is judged by and hands on.
#pragma once

#include "shade/optim/optimizer.h"
#include "shade/shard/runtime.h"

namespace shade::train {

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
