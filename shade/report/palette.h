// One colour for one thing, in every picture and on the page, for white and dark backgrounds.
#pragma once

#include <string>
#include <vector>

#include "shade/base/json.h"

namespace shade::report {

std::string colour_of_method(const std::string& method);
std::string colour_of_shard(const std::string& shard);
// Told apart in pairs, by the colour-blind too: palette_test.cpp has the distances.
inline constexpr size_t kDistinctColours = 12;
std::string distinct_colour(size_t number);
std::string colour_of_memory(const std::string& kind);
std::string colour_of_span(const std::string& name);             // a phase of a step, a unit, a wait or a collective
std::string shade_of(const std::string& colour, size_t number);  // 0: itself, then lighter, darker, paler ones
std::string paler(const std::string& colour);                    // for what lies behind
std::string colour_of_run(size_t number);                        // the first, the second, ... of a picture

}  // namespace shade::report
