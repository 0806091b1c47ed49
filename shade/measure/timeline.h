// One step as it happened, for a result file: spans, collectives and the course of memory on one axis of time.
#pragma once

#include <functional>
#include <span>

#include "shade/base/span.h"
#include "shade/catalog/parts.h"
#include "shade/comm/traffic.h"
#include "shade/profile/memory.h"

namespace shade::measure {

// The name of what a span's index means: a weight for norms, a unit for gathers; empty: nothing.
using NameOf = std::function<std::string(SpanName span, int64_t index)>;

struct StepTimes {
  Clock::time_point begin, end;
};

// What can't be seen at this scale is left out.
catalog::Timeline timeline_of(StepTimes step, std::span<const SpanRecord> spans,
                              std::span<const comm::TrafficRecord> traffic,
                              std::span<const profile::MemoryPoint> course, const NameOf& name_of);

}  // namespace shade::measure
