// The message about a --model that names nothing: what is at that place, and what was probably meant.
#pragma once

#include <string>
#include <vector>

namespace shade::models {

// Of a name that is no size of `known`, no folder with a config.json and no copy of a model of the hub.
std::string describe_unknown_name(const std::string& name, const std::vector<std::string>& known);

}  // namespace shade::models
