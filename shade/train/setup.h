// What everybody who trains or measures training sets up alike.
#pragma once

#include <memory>

#include "shade/optim/config.h"
#include "shade/shard/runtime.h"

namespace shade::train {

// With its state allocated, where the runtime keeps such things.
std::unique_ptr<optim::Optimizer> prepared_optimizer(const optim::OptimConfig& config, shard::Runtime& runtime);

}  // namespace shade::train
