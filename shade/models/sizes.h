// Sizes of a named model that a user overrides.
#pragma once

#include "shade/base/config.h"
#include "shade/nn/positions.h"

namespace shade::models {

// 0 leaves the named model's own number.
struct SizeOverrides {
  int64_t hidden_dim = 0, num_layers = 0, num_heads = 0, num_kv_heads = 0, ffn_dim = 0, vocab_size = 0;
  int64_t image_size = 0, patch_size = 0, in_channels = 0, num_classes = 0;
  nn::Positions positions = nn::Positions::automatic;  // of a DiT
  bool learn_sigma = false;                            // of a DiT; false leaves the named model's own

  void declare(Fields& fields);
};

// A family's sizes, as far as they are overridden.
inline void replace(int64_t& size, int64_t other) {
  if (other > 0) size = other;
}
// Throws UsageError naming what only a DiT has: programs with the library, which don't judge options, learn it here.
void refuse_dit_choices(const SizeOverrides& sizes);

}  // namespace shade::models
