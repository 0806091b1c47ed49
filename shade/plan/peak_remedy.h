// What a planned step's peak is made of, and which option lowers it.
#pragma once

#include "shade/measure/bench.h"
#include "shade/plan/step_record.h"

namespace shade::plan {

std::string largest_part(const StepRecord& record);  // "12.3 GiB of activations (61 %)"

// The option that lowers the largest part of the peak for which there is one that is not in use: "--checkpointing
// block". Empty: none is known.
std::string peak_remedy(const StepRecord& record, const measure::Experiment& experiment);

}  // namespace shade::plan
