// The shards that this rank owns, as an optimizer sees them.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "shade/optim/config.h"
#include "shade/optim/optimizer.h"
#include "shade/shard/runtime.h"
#include "shade/shard/sharded_unit.h"

namespace shade::train {

// Weight decay pulls matrices and tables towards 0: embeddings, heads, adapters. Vectors, which are the scales of norms
// and all biases, are where 0 has no meaning.
inline bool decays(const nn::Weight& weight) { return weight.shape().size() > 1; }

std::vector<optim::Slot> slots_of(std::span<const shard::LocalShard> shards);

// What training and measuring set up alike.

// With its state allocated, where the runtime keeps such things.
std::unique_ptr<optim::Optimizer> prepared_optimizer(const optim::OptimConfig& config, shard::Runtime& runtime);

}  // namespace shade::train
