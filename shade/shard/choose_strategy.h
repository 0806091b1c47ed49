// The strategy of a job that doesn't state one.
#pragma once

#include "shade/shard/config.h"

namespace shade::shard {

// zero3 for a method whose name says so (ghost_fsdp) and for several ranks, unless [shard] shard was given. Returns
// what was chosen and why, to be announced; empty: nothing. Choosing again changes nothing.
std::string choose_strategy(ShardConfig& shard, const Given& given, int ranks);

}  // namespace shade::shard
