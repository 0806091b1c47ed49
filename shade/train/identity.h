// What decides the bits of a step, besides (key, incarnation, step).
#pragma once

#include <string>

#include "shade/base/config.h"
#include "shade/comm/environment.h"
#include "shade/data/dataset.h"

namespace shade::train {

// Two processes of equal identity that make the same step of the same run make it to the bit. It holds the sections of
// the recipe that matter, the records, the number of ranks and threads, the libtorch and the processor: sums are
// rounded in an order that depends on all of them. A hash, to be compared.
std::string identity_of(const Config& config, const data::Dataset& records, int ranks);

}  // namespace shade::train
