// A keyed hash of a step's clipped sum, over all ranks: the same if and only if every element is the same to the bit.
//
// A repeated step must be the step that was made: the ledger compares. The sum itself has no noise yet, so the hash is
// keyed with a key of the incarnation. XXH3 (xxhash) reads the gradients at the speed of memory, under a secret of this
// key; keyed BLAKE2b of its results is what is kept. BLAKE2b alone would cost as much as the noise.
#pragma once

#include <span>

#include "shade/comm/group.h"
#include "shade/hash/digest.h"
#include "shade/privacy/key.h"
#include "shade/shard/sharded_unit.h"

namespace shade::train {

// Collective over `group`, all ranks; gradients on the CPU. `others` are numbers released with the sum.
hash::Digest sum_digest(const privacy::NoiseKey& key, std::span<const shard::LocalShard> shards,
                        const std::vector<double>& others, const comm::Group& group);

}  // namespace shade::train
