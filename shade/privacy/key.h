// Keys of a private run. All randomness of a step, its batch and its noise, is a function of a key and the step.
//
//   run key            from the operating system, in the run directory until the run is finished
//   incarnation key    derived from the run key and random bytes that the ledger keeps (checkpoint/ledger.h)
//   purposes           derived from the incarnation key: sampler, hash of clipped sums, and the noise of each step and
//   weight
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "shade/base/key_bytes.h"

namespace shade::privacy {

// 32 secret bytes; every copy is wiped when it ends.
using NoiseKey = KeyBytes;

NoiseKey secret_key();               // from the operating system; forbids memory dumps of this process
NoiseKey seeded_key(uint64_t seed);  // repeatable: anyone who knows the seed can subtract the noise

// By keyed BLAKE2b, whose parameter block has a place for the purpose (at most 16 bytes): keys of different purposes
// share nothing.
NoiseKey derived_key(const NoiseKey& key, std::string_view purpose, std::span<const std::byte> message = {});

}  // namespace shade::privacy
