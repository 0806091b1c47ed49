// The noise of noise.h as a GPU draws it: one thread makes two blocks of ChaCha20 and the sixteen numbers that they
// give.
#pragma once

#include "shade/privacy/chacha20_block.h"
#include "shade/privacy/grid_sum.h"
#include "shade/privacy/normal_pair.h"

namespace shade::privacy {

constexpr int kLanes = 16;  // of a chunk of 256 numbers: as many as blocks in a half of its words

// Elements [begin, end) of a weight get noise.
struct NoiseTask {
  uint32_t key[8];  // the subkey of (step, weight)
  Grid grid;
  int64_t begin, end;
};

SHADE_INLINE void chacha20_words(const uint32_t key[8], uint64_t counter, uint32_t (&words)[16], uint32_t nonce = 0) {
  uint32_t in[16];
  chacha20_constants(in);
  for (int i = 0; i < 8; ++i) in[4 + i] = key[i];
  in[12] = static_cast<uint32_t>(counter), in[13] = static_cast<uint32_t>(counter >> 32), in[14] = nonce, in[15] = 0;
  chacha20_block(in, words);
}

// sums[i] is element begin + i. The words of normals() are at 16 w + lane of each half (chacha20.h), so pair 16 w +
// lane takes words w and w + 8 of both blocks. Returns which are undecided (and stay): bit w is number 16 w + lane of
// the chunk.
template <bool fused>
SHADE_INLINE uint16_t add_noise_of_lane(const NoiseTask& task, int64_t chunk, int lane, double* sums) {
  uint32_t radius[16], direction[16];
  const auto block = static_cast<uint64_t>(2 * kLanes * chunk + lane);
  chacha20_words(task.key, block, radius);
  chacha20_words(task.key, block + kLanes, direction);
  uint32_t undecided = 0;
#pragma unroll
  for (int w = 0; w < 8; ++w) {
    const auto pair = normal_pair<fused>(known_radius<fused>(radius[w], radius[w + 8]), direction[w], direction[w + 8]);
    const int64_t along = kNormalChunk * chunk + kLanes * w + lane, across = along + kNormalChunk / 2;
    if (along >= task.begin && along < task.end) {
      const auto sum = sum_on_grid<fused>(task.grid, sums[along - task.begin], pair.along);
      sums[along - task.begin] = sum.value;
      undecided |= (sum.decided ? 0u : 1u) << w;
    }
    if (across >= task.begin && across < task.end) {
      const auto sum = sum_on_grid<fused>(task.grid, sums[across - task.begin], pair.across);
      sums[across - task.begin] = sum.value;
      undecided |= (sum.decided ? 0u : 1u) << (w + 8);
    }
  }
  return static_cast<uint16_t>(undecided);
}

}  // namespace shade::privacy
