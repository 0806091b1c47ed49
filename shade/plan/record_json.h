// A planned step for result files, under the keys of `shade bench` where both have the figure.
#pragma once

#include "shade/base/json.h"
#include "shade/plan/step_record.h"

namespace shade::plan {

// {"num_ranks", "peak_memory_mb", "breakdown"{}, "peak_owner"{}, "communication"{bytes, collectives[]}, "phases"{},
// ...}; events are left out.
Json to_json(const StepRecord& record);

// For people: "12.0 MiB of gradients in backward, unit layers.3".
std::string owner_text(const PeakOwner& owner);

}  // namespace shade::plan
