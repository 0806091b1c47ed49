// The loss of records that are not trained on.
#pragma once

#include <optional>

#include "shade/data/dataset.h"
#include "shade/models/model.h"
#include "shade/shard/runtime.h"
#include "shade/train/held_out.h"

namespace shade::train {

struct Evaluation {
  double loss = 0;                 // mean over records
  std::optional<double> accuracy;  // of classes
  int64_t records = 0;
};

// Collective: every rank takes its part. No gradients, nothing is changed.
Evaluation evaluate(models::Model& model, shard::Runtime& runtime, const data::Dataset& dataset, const HeldOut& split,
                    int64_t micro_batch);

}  // namespace shade::train
