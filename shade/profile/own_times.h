// Spans nest: a norm is part of its backward, and both wait for parameters. Own times count every moment once.
#pragma once

#include <map>
#include <span>
#include <string>

#include "shade/base/span.h"

namespace shade::profile {

struct OwnTimes {
  std::map<std::string, Millis> phases;  // by name, each without the spans inside it; waits are phases of their own
  std::map<std::string, Millis> waits;   // by the outermost phase that waited
};

// Of the spans of one step, in the order in which they ended. Units are no phases, and the wait of a collective belongs
// to the wait that it is part of.
OwnTimes own_times(std::span<const SpanRecord> records);

}  // namespace shade::profile
