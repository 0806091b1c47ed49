#include "shade/train/averaged_weights.h"

#include "shade/base/log.h"
#include "shade/checkpoint/owned.h"
#include "shade/optim/ema.h"

namespace shade::train {

AveragedWeights::AveragedWeights(shard::Runtime& runtime, optim::Optimizer& optimizer)
    : runtime_(&runtime), optimizer_(&optimizer) {
  if (optimizer.keeps_average()) exchange();
}

AveragedWeights::~AveragedWeights() try {
  if (optimizer_->keeps_average()) exchange();
} catch (const std::exception& fault) {  // of a peer that a gather waited for: the next collective says so again
  log::error("going back from the average of the weights: ", fault.what());
}

// A weight's states follow it in what a rank owns.
void AveragedWeights::exchange() {
  at::Tensor weight;
  for (const auto& piece : checkpoint::owned_by(*runtime_, *optimizer_)) {
    if (piece.part == checkpoint::kWeightPart) weight = piece.values;
    if (piece.part == optim::kAverage) optim::exchange(weight, piece.values);
  }
  runtime_->updated();
}

}  // namespace shade::train
