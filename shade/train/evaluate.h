// The loss of records that are not trained on.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "shade/data/dataset.h"
#include "shade/shard/runtime.h"
#include "shade/train/micro_shapes.h"
#include "shade/train/tally.h"

namespace shade::train {

// Collective: every rank takes its part, in micro-batches of these shapes. No gradients, nothing is changed. `stop` is
// asked before every micro-batch, on every rank or on none; true on any of them ends the evaluation without a result.
std::optional<Evaluation> evaluate(models::Model& model, shard::Runtime& runtime, const data::Dataset& dataset,
                                   const std::vector<int64_t>& records, const MicroShapes& shapes,
                                   const std::function<bool()>& stop = {});

}  // namespace shade::train
