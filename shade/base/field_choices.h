// The values that a configuration field can take, where they are few and known by name.
#pragma once

#include <string>
#include <vector>

#include "shade/base/config.h"

namespace shade {

std::vector<std::string> choices_of(const Field& field);  // of a switch or an enum, as set() reads them; else empty

}  // namespace shade
