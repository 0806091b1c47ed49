#include "shade/privacy/chacha20.h"

#include <cstring>

#include "shade/base/sanitizer.h"
#include "shade/privacy/chacha20_block.h"

#if defined(__x86_64__) && !SHADE_SANITIZED
#define SHADE_WIDEST __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define SHADE_WIDEST
#endif

namespace shade::privacy {
namespace {

using Lanes = uint32_t __attribute__((vector_size(64)));  // one word of sixteen blocks

}  // namespace

SHADE_WIDEST
void chacha20_chunk(const uint8_t key[32], uint64_t chunk, uint32_t words[kChaChaWords]) {
  uint32_t k[8];
  std::memcpy(k, key, 32);  // little-endian, as all machines this is built for
  const Lanes lane{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const uint64_t counter = 16 * chunk;
  Lanes in[16] = {};
  chacha20_constants(in);
  for (int i = 0; i < 8; ++i) in[4 + i] += k[i];
  in[12] = lane + static_cast<uint32_t>(counter);  // no carry: a chunk begins at a multiple of 16
  in[13] += static_cast<uint32_t>(counter >> 32);
  Lanes out[16];
  chacha20_block(in, out);
  std::memcpy(words, out, sizeof out);
}

}  // namespace shade::privacy
