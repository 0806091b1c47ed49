#include "shade/privacy/chacha20.h"

#include <cstring>

#include "shade/base/sanitizer.h"

#if defined(__x86_64__) && !SHADE_SANITIZED
#define SHADE_WIDEST __attribute__((target_clones("default", "avx2", "arch=x86-64-v4")))
#else
#define SHADE_WIDEST
#endif

namespace shade::privacy {
namespace {

using Lanes = uint32_t __attribute__((vector_size(64)));  // one word of sixteen blocks

#define SHADE_ROTATE(x, n) x = (x << n) | (x >> (32 - n))
#define SHADE_QUARTER(a, b, c, d) \
  a += b, d ^= a;                 \
  SHADE_ROTATE(d, 16);            \
  c += d, b ^= c;                 \
  SHADE_ROTATE(b, 12);            \
  a += b, d ^= a;                 \
  SHADE_ROTATE(d, 8);             \
  c += d, b ^= c;                 \
  SHADE_ROTATE(b, 7)

}  // namespace

SHADE_WIDEST
void chacha20_chunk(const uint8_t key[32], uint64_t chunk, uint32_t words[kChaChaWords]) {
  uint32_t k[8];
  std::memcpy(k, key, 32);  // little-endian, as all machines this is built for
  const Lanes lane{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const uint64_t counter = 16 * chunk;
  Lanes in[16] = {};
  in[0] += 0x61707865u, in[1] += 0x3320646eu, in[2] += 0x79622d32u, in[3] += 0x6b206574u;
  for (int i = 0; i < 8; ++i) in[4 + i] += k[i];
  in[12] = lane + static_cast<uint32_t>(counter);  // no carry: a chunk begins at a multiple of 16
  in[13] += static_cast<uint32_t>(counter >> 32);
  Lanes a0 = in[0], a1 = in[1], a2 = in[2], a3 = in[3], b0 = in[4], b1 = in[5], b2 = in[6], b3 = in[7];
  Lanes c0 = in[8], c1 = in[9], c2 = in[10], c3 = in[11], d0 = in[12], d1 = in[13], d2 = in[14], d3 = in[15];
  for (int round = 0; round < 10; ++round) {
    SHADE_QUARTER(a0, b0, c0, d0);
    SHADE_QUARTER(a1, b1, c1, d1);
    SHADE_QUARTER(a2, b2, c2, d2);
    SHADE_QUARTER(a3, b3, c3, d3);
    SHADE_QUARTER(a0, b1, c2, d3);
    SHADE_QUARTER(a1, b2, c3, d0);
    SHADE_QUARTER(a2, b3, c0, d1);
    SHADE_QUARTER(a3, b0, c1, d2);
  }
  const Lanes out[16] = {a0 + in[0],  a1 + in[1],  a2 + in[2],  a3 + in[3], b0 + in[4],  b1 + in[5],
                         b2 + in[6],  b3 + in[7],  c0 + in[8],  c1 + in[9], c2 + in[10], c3 + in[11],
                         d0 + in[12], d1 + in[13], d2 + in[14], d3 + in[15]};
  std::memcpy(words, out, sizeof out);
}

}  // namespace shade::privacy
