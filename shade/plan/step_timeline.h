// A predicted step on an axis of time, under the keys by which `shade bench` writes a measured one
// (measure/timeline.h): what the device computes, what it waits for, the collectives of each link, and the course of
// memory.
#pragma once

#include "shade/base/json.h"
#include "shade/plan/cost.h"

namespace shade::plan {

// {"step_ms", "spans", "collectives", "memory"}; a collective has a "stream" too, the link it occupies: "network",
// "node" or "hosts". Phases and units are stretches of compute with the waits in them. Bounded in size: what can't be
// seen at the scale of the step is left out of the spans, and neighbouring collectives that can't are one.
catalog::Timeline timeline_of(const StepRecord& record, const TimePrediction& time, const DeviceProfile& device);

}  // namespace shade::plan
