// What a rank's process has in memory besides the pages of its tensors: the program and its libraries, threads, buffers
// of kernels and connections.
#pragma once

#include "shade/comm/world.h"
#include "shade/train/compute_type.h"

namespace shade::plan {

// Two steps of a small model: the most that the process had, less the peak of its tensors. Collective; the largest of
// the ranks. The peak of a process never falls: call it before anything large.
Bytes beside_tensors(comm::World& world, train::ComputeType type);

}  // namespace shade::plan
