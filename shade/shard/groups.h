// The groups a strategy needs. Separate ones, so that gathers, reductions and small talk don't queue behind each other.
#pragma once

#include "shade/comm/mesh.h"
#include "shade/shard/config.h"

namespace shade::shard {

struct Groups {
  Policy policy;
  comm::Group gather, reduce;  // along the shard axis
  comm::Group replicate;       // along the other axis
  comm::Group control;         // all ranks; CPU tensors
};

// Collective. Several runtimes, one after the other, may share the result; a world connects each mesh once, or once for
// each `prefix` of the groups' names.
Groups connect_groups(comm::World& world, const Policy& policy, const std::string& prefix = "");

}  // namespace shade::shard
