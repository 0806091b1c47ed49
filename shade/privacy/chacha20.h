// Random bits from a key and a counter: ChaCha20 (RFC 8439's rounds, 64-bit counter, nonce 0).
//
// libsodium's own takes 1.8 ns for the word of a number here, most of the cost of noise; sixteen blocks side by side
// take a third of that, and tests compare them with libsodium's.
#pragma once

#include <cstdint>

namespace shade::privacy {

constexpr int kChaChaWords = 256;  // sixteen blocks of 64 bytes

// Words of blocks 16 chunk .. 16 chunk + 15: word w of block b is at words[16 w + b].
void chacha20_chunk(const uint8_t key[32], uint64_t chunk, uint32_t words[kChaChaWords]);

}  // namespace shade::privacy
