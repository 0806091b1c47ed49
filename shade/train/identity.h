// What decides the bits of a step, besides (key, incarnation, step).
#pragma once

#include <string>

#include "shade/base/config.h"
#include "shade/comm/group.h"
#include "shade/data/dataset.h"
#include "shade/models/model.h"

namespace shade::train {

// Two jobs of equal identity that make the same step of the same run make it to the bit. It is a hash over all ranks of
// what each computes with: the sections of the recipe that matter, the architecture, the records, the weights that
// training starts from, the number of threads, this very program, libtorch and the processor (sums are rounded in an
// order that depends on all of them). Files are known by their sizes and times. Collective.
std::string identity_of(const Config& config, const models::Model& model, const data::Dataset& records,
                        const comm::Group& group);

}  // namespace shade::train
