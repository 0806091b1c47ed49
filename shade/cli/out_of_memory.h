// Memory that ran out, in words a user can act on.
#pragma once

#include <optional>
#include <string>

#include "shade/base/units.h"

namespace shade::cli {

// What failed, and what needs less; `wanted`: the size of the allocation, where it is known.
std::string out_of_memory_text(std::optional<Bytes> wanted = {});

// The same, if these are the words of libtorch's allocator; empty: another error.
std::optional<std::string> out_of_memory(const std::string& what);

}  // namespace shade::cli
