// One step as it happened, for a result file: spans, collectives and the course of memory on one axis of time.
#pragma once

#include <functional>
#include <span>

#include "shade/base/json.h"
#include "shade/base/span.h"
#include "shade/comm/traffic.h"
#include "shade/profile/memory.h"

namespace shade::measure {

// The name of what a span's index means: a weight for norms, a unit for gathers; empty: nothing.
using NameOf = std::function<std::string(const char* span, int64_t index)>;

struct StepTimes {
  Clock::time_point begin, end;
};

// {"step_ms", "spans": [{name, of, from_ms, to_ms}], "collectives": [{name, label, from_ms, to_ms, waited_ms}],
//  "memory": {"ms": [...], "<category>": [MiB ...]}}. What can't be seen at this scale is left out.
Json timeline_of(StepTimes step, std::span<const SpanRecord> spans, std::span<const comm::TrafficRecord> traffic,
                 std::span<const profile::MemoryPoint> course, const NameOf& name_of);

// {"phase", "within", "layer", "unit", "category", "mb"}, and "words" for people: what made the peak.
Json json_of(const profile::PeakPlace& place, const NameOf& name_of);

}  // namespace shade::measure
