// The key of a job that keeps none on disk.
#pragma once

#include <optional>

#include "shade/comm/group.h"
#include "shade/privacy/key.h"

namespace shade::train {

// Rank 0's, from the operating system, on every rank; with a seed a function of that, and protecting nothing.
// Collective.
privacy::NoiseKey agreed_key(const comm::Group& group, std::optional<uint64_t> seed);

}  // namespace shade::train
