// What everybody who trains or measures training sets up alike.
#pragma once

#include <memory>

#include "shade/comm/world.h"
#include "shade/optim/config.h"
#include "shade/shard/runtime.h"

namespace shade::train {

// Compute threads of this process; 0: libtorch's choice, one if there are several ranks. Rank 0 warns if the ranks of
// its host have more of them together than there are cores.
void use_threads(int64_t wanted, const comm::Place& place);

// A rank of a world on NCCL computes on its GPU.
at::Device device_of(const comm::World& world);

// With its state allocated, where the runtime keeps such things.
std::unique_ptr<optim::Optimizer> prepared_optimizer(const optim::OptimConfig& config, shard::Runtime& runtime);

}  // namespace shade::train
