#include "shade/train/written_weights.h"

#include "shade/base/error.h"

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

}  // namespace shade::train
