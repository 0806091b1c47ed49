// A layer's squared norms into the micro-batch's: which norm file answers for which kind of layer.
#pragma once

#include "shade/privacy/clip/sample_norms.h"

namespace shade::privacy {

// How the norms of linear layers are computed; layers of other kinds ignore it.
struct NormOptions {
  NormAlgorithm algorithm = NormAlgorithm::automatic;  // automatic: the cheaper one by norm_costs()
  int64_t tile = 0;    // of Gram matrices, in positions; 0: chosen from the sequence length
  Bytes workspace{0};  // largest block of a gradient that is made for its norm; 0: set by device
};

// Of everything in the layer, without keeping any of it. The layer was admitted before.
void add_norms(const nn::LayerGrad& grad, const NormOptions& options, SampleNorms& norms);

// A linear weight's rows met their samples' gradients: norm, and what a tied table needs later.
void add_norms(const nn::LinearGrad& grad, const SampleGradients& gradients, SampleNorms& norms);

// Operations of the two algorithms for one sample. They follow from its shape alone, not from how many samples there
// are: on accelerators without a wanted tile the whole square is counted.
struct NormCosts {
  double gram;         // of Gram matrices, in floating-point operations
  double instantiate;  // of gradients in blocks, in the same unit
  // If both cost the same: instantiate.
  NormAlgorithm cheaper() const { return gram < instantiate ? NormAlgorithm::gram : NormAlgorithm::instantiate; }
};
// `wanted_tile`: as NormOptions::tile.
NormCosts norm_costs(const nn::LinearGrad& grad, int64_t wanted_tile);

}  // namespace shade::privacy
