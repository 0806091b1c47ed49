// One colour for one thing, in every picture and on the page. Told apart by the colour-blind, and on white and black.
#pragma once

#include <string>
#include <vector>

#include "shade/base/json.h"

namespace shade::report {

std::string colour_of_method(const std::string& method);
std::string colour_of_shard(const std::string& shard);
std::string colour_of_memory(const std::string& kind);
std::string colour_of_span(const std::string& name);             // a phase of a step, a unit, a wait or a collective
std::string shade_of(const std::string& colour, size_t number);  // 0: itself, then lighter, darker, paler ones
std::string paler(const std::string& colour);                    // for what lies behind
std::string colour_of_run(size_t number);                        // the first, the second, ... of a picture

}  // namespace shade::report
