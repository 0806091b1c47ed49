// What decides the bits of a step, besides (incarnation key, step).
#pragma once

#include <string>

#include "shade/base/config.h"
#include "shade/data/dataset.h"
#include "shade/models/model.h"
#include "shade/optim/optimizer.h"
#include "shade/shard/runtime.h"

namespace shade::train {

// Two jobs of equal identity that make the same step of the same run make it to the bit. It is a hash over all ranks of
// what each computes with: the whole recipe as it was resolved, less what provably can't matter (identity.cpp lists
// it), the architecture, the content of the records and of the first weights, the number of threads, this very program,
// libtorch, the processor, and the variables by which libraries choose how they compute (sums are rounded in an order
// that depends on all of them). Collective. The weights are those that training starts from: call it before a
// checkpoint is loaded.
struct Identity {
  std::string digest;
  Json parts;  // of this rank, before hashing
};
Identity identity_of(const Config& config, const models::Model& model, const data::Dataset& records,
                     shard::Runtime& runtime, optim::Optimizer& optimizer);

// The part of a resolved recipe that is in it, for tests.
Json deciding(Json recipe);

}  // namespace shade::train
