// What the proof of the noise (docs/noise.md) takes for granted of the processor and the compiler, tried.
#pragma once

#include <cstdint>

#include "shade/privacy/variant.h"

namespace shade::privacy {

// Throws Error if this thread doesn't round to nearest or takes subnormal numbers for 0, or if the kernels of the
// noise, as they were compiled, don't give the bits that their source means: contracted, reassociated or approximated.
// The latter is tried once per process.
void require_exact_arithmetic();

// A hash of what the kernels give for all kinds of words and sums, the same for each variant.
uint64_t bits_of_kernels(Variant variant);
bool has_known_bits(uint64_t bits);

}  // namespace shade::privacy
