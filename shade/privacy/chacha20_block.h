// ChaCha20 on words, or on vectors of words that are so many blocks side by side.
#pragma once

#include <cstdint>

#include "shade/privacy/kernel_code.h"

namespace shade::privacy {

template <class Word>
SHADE_INLINE void chacha20_quarter(Word& a, Word& b, Word& c, Word& d) {
  a += b, d ^= a;
  d = (d << 16) | (d >> 16);
  c += d, b ^= c;
  b = (b << 12) | (b >> 20);
  a += b, d ^= a;
  d = (d << 8) | (d >> 24);
  c += d, b ^= c;
  b = (b << 7) | (b >> 25);
}

template <class Word>
SHADE_INLINE void chacha20_constants(Word (&in)[16]) {
  in[0] = Word{} + 0x61707865u, in[1] = Word{} + 0x3320646eu, in[2] = Word{} + 0x79622d32u;
  in[3] = Word{} + 0x6b206574u;
}

// The block of `in`: constants, key, counter and nonce.
template <class Word>
SHADE_INLINE void chacha20_block(const Word (&in)[16], Word (&out)[16]) {
  Word a0 = in[0], a1 = in[1], a2 = in[2], a3 = in[3], b0 = in[4], b1 = in[5], b2 = in[6], b3 = in[7];
  Word c0 = in[8], c1 = in[9], c2 = in[10], c3 = in[11], d0 = in[12], d1 = in[13], d2 = in[14], d3 = in[15];
  for (int round = 0; round < 10; ++round) {
    chacha20_quarter(a0, b0, c0, d0);
    chacha20_quarter(a1, b1, c1, d1);
    chacha20_quarter(a2, b2, c2, d2);
    chacha20_quarter(a3, b3, c3, d3);
    chacha20_quarter(a0, b1, c2, d3);
    chacha20_quarter(a1, b2, c3, d0);
    chacha20_quarter(a2, b3, c0, d1);
    chacha20_quarter(a3, b0, c1, d2);
  }
  out[0] = a0 + in[0], out[1] = a1 + in[1], out[2] = a2 + in[2], out[3] = a3 + in[3];
  out[4] = b0 + in[4], out[5] = b1 + in[5], out[6] = b2 + in[6], out[7] = b3 + in[7];
  out[8] = c0 + in[8], out[9] = c1 + in[9], out[10] = c2 + in[10], out[11] = c3 + in[11];
  out[12] = d0 + in[12], out[13] = d1 + in[13], out[14] = d2 + in[14], out[15] = d3 + in[15];
}

}  // namespace shade::privacy
