// Training that has diverged ends before anything of it is saved, evaluated or exported.
#pragma once

#include "shade/shard/runtime.h"
#include "shade/train/step.h"

namespace shade::train {

struct Reached {
  int64_t step = 0;   // steps made
  int64_t saved = 0;  // of the last checkpoint; -1: there is none
};

// Of a run that is not private: the mean loss and the gradient norm of a step that had samples are finite. Throws
// Error.
void require_finite_loss(const StepRecord& record, const Reached& reached);

// Collective. Throws Error on every rank if a weight of any is not finite.
void require_finite_weights(shard::Runtime& runtime, const StepRecord& record, const Reached& reached);

}  // namespace shade::train
