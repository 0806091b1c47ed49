// The weights that training starts from.
#pragma once

#include <string>

#include "shade/nn/parameters.h"
#include "shade/shard/runtime.h"

namespace shade::train {

// Each rank reads the elements it owns from a folder or file of safetensors. Adapters and a classifier's head may be
// missing there; then they begin as the seed says. Throws UsageError.
void start_from(const std::string& place, const nn::Parameters& parameters, shard::Runtime& runtime, uint64_t seed);

}  // namespace shade::train
