// What a rank's process has in memory besides the pages of its tensors: the program and its libraries, threads, buffers
// of kernels and connections.
#pragma once

#include "shade/comm/world.h"

namespace shade::plan {

struct BesideTensors {
  Bytes fp32, bf16;  // of runs in this type
};

// Two steps of a small model in each type: the most that the process had, less what a plan counts as pages of its
// tensors. Collective; the largest of the ranks. The peak of a process never falls: call it before anything large.
BesideTensors beside_tensors(comm::World& world);

}  // namespace shade::plan
