#include "shade/train/step/written_weights.h"

#include "shade/base/error.h"
#include "shade/base/log.h"
#include "shade/checkpoint/owned.h"
#include "shade/optim/ema.h"

namespace shade::train {

void WrittenWeights::begin() { seen_.assign(parameters_->weights().size(), {}); }

void WrittenWeights::require_open(const nn::Weight& weight) const {
  SHADE_REQUIRE(!seen_[static_cast<size_t>(weight.id())].completed,
                "the clipping method writes the gradient of weight ", weight.name(),
                " after it said that it is complete, so what it adds may miss the sum over ranks; call sink.complete "
                "after the last write");
}

at::Tensor WrittenWeights::buffer(const nn::Weight& weight) {
  require_open(weight);
  return sink_->buffer(weight);
}

void WrittenWeights::mark_written(const nn::Weight& weight) {
  require_open(weight);
  seen_[static_cast<size_t>(weight.id())].written = true;
  sink_->mark_written(weight);
}

void WrittenWeights::complete(const nn::Weight& weight) {
  seen_[static_cast<size_t>(weight.id())].completed = true;
  sink_->complete(weight);
}

void WrittenWeights::require_all(bool says_complete) const {
  for (const auto& weight : parameters_->weights()) {
    if (!weight.trainable()) continue;
    const auto& [written, completed] = seen_[static_cast<size_t>(weight.id())];
    SHADE_REQUIRE(written, "the clipping method wrote no gradient of weight ", weight.name(),
                  " in a private step; every trainable weight needs one (sink.buffer and mark_written), or freeze it");
    SHADE_REQUIRE(completed || !says_complete, "the clipping method never said that the gradient of weight ",
                  weight.name(),
                  " is complete, so it would not be summed over ranks; call sink.complete for each weight");
  }
}

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
