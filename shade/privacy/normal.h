// Normal numbers from random bits, the same on every machine: additions, products, divisions and square roots of IEEE
// arithmetic in a fixed order, no libm, no fused operations. Compilers vectorise it.
#pragma once

#include <cstdint>

namespace shade::privacy {

constexpr int kNormalBlock = 16;  // numbers from one ChaCha20 block of 64 bytes

// `out[i]` for i < 16 * blocks from as many words. Words 0-7 of a block give radii, 8-15 angles.
void normals(const uint32_t* bits, int64_t blocks, float* out);

}  // namespace shade::privacy
