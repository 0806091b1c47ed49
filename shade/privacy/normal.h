// Normal numbers from a key and a counter, the same on every machine.
//
// Bits are ChaCha20's (RFC 8439's rounds, 64-bit counter, nonce 0). libsodium's own takes 1.8 ns a number here, most of
// the cost of noise; sixteen blocks side by side take a third of that, and tests compare them with libsodium's. Normals
// are additions, products, divisions and square roots of IEEE arithmetic in a fixed order: no libm, nothing fused.
#pragma once

#include <cstdint>

namespace shade::privacy {

constexpr int kNormalChunk = 256;  // numbers from sixteen blocks of 64 bytes

// Words of blocks 16 chunk .. 16 chunk + 15: word w of block b is at words[16 w + b].
void chacha20_chunk(const uint8_t key[32], uint64_t chunk, uint32_t words[kNormalChunk]);

// Words 0-7 of each block give radii, 8-15 angles.
void normals(const uint32_t words[kNormalChunk], float out[kNormalChunk]);

}  // namespace shade::privacy
