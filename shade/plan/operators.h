// What an operator of libtorch costs, from its name and the shapes of its tensors.
#pragma once

#include <ATen/record_function.h>

#include <optional>

#include "shade/plan/step_record.h"

namespace shade::plan {

// Of an operator that is about to run on meta tensors: name, FLOPs, and what it reads. None: it launches nothing (a
// view, an allocation, a question, tensors of the host).
std::optional<StepEvent> begun_operator(const at::RecordFunction& function);

// What it has written. False: nothing was computed.
bool complete(StepEvent& event, const at::RecordFunction& function);

}  // namespace shade::plan
