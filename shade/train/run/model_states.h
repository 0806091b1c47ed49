// The memory that a model's states take for certain: weights, gradients and optimizer state. Activations, buffers of
// collectives and per-sample gradients come on top, so what doesn't fit by this reckoning doesn't fit.
#pragma once

#include <optional>
#include <string>

#include "shade/models/registry.h"
#include "shade/nn/dtype.h"
#include "shade/nn/parameters.h"
#include "shade/optim/config.h"
#include "shade/shard/config.h"
#include "shade/shard/runtime.h"

namespace shade::train {

// Memory of all ranks of a host; offloaded states don't count.
struct ModelStates {
  Bytes weights;    // with gathered or converted copies that stay
  Bytes gradients;  // 0 where they take the memory of gathered weights (zero2)
  Bytes optimizer;  // 0: it keeps no state

  Bytes total() const;  // at most 8 EiB, as are the parts
};

// What the states of a training run depend on.
struct StatesPlan {
  shard::ShardConfig shard;                 // strategy and offload
  nn::DType compute = nn::DType::fp32;      // type of the computation
  std::optional<optim::OptimConfig> optim;  // none: nothing is updated
  int ranks = 1;                            // of the world
  int local_ranks = 1;                      // of this host
};

// Where nothing is sharded, converted or updated: weights and gradients of one type, whole on every rank.
ModelStates plain_states(const models::ModelSize& size, nn::DType type, int local_ranks = 1);

// States of a training run. Throws UsageError if the strategy doesn't fit the ranks.
ModelStates model_states(const models::ModelSize& size, const StatesPlan& plan);

// Throws UsageError with the figures if the states exceed what is available to all ranks of this host.
void require_memory(const ModelStates& states, Bytes available);

// The same for what this host could still give, swap included.
void require_memory(const ModelStates& states);

// The weights that training starts from.

// Each rank reads the elements it owns from a folder or file of safetensors. Adapters and a classifier's head may be
// missing there; then they begin as the seed says. Throws UsageError.
void start_from(const std::string& place, const nn::Parameters& parameters, shard::Runtime& runtime, uint64_t seed);

}  // namespace shade::train
