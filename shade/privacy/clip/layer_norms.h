// A layer's squared norms into the micro-batch's: which norm file answers for which kind of layer.
#pragma once

#include "shade/privacy/clip/sample_norms.h"

namespace shade::privacy {

struct NormOptions {
  NormAlgorithm algorithm = NormAlgorithm::automatic;
  int64_t tile = 0;
  Bytes workspace{0};
};

// Of everything in the layer, without keeping any of it. The layer was admitted before.
void add_norms(const nn::LayerGrad& grad, const NormOptions& options, SampleNorms& norms);

// A linear weight's rows met their samples' gradients: norm, and what a tied table needs later.
void add_norms(const nn::LinearGrad& grad, const SampleGradients& gradients, SampleNorms& norms);

// Operations of the two algorithms for one sample. They follow from its shape alone, not from how many samples there
// are: on accelerators without a wanted tile the whole square is counted.
struct NormCosts {
  double gram, instantiate;
  NormAlgorithm cheaper() const { return gram < instantiate ? NormAlgorithm::gram : NormAlgorithm::instantiate; }
};
NormCosts norm_costs(const nn::LinearGrad& grad, int64_t wanted_tile);

}  // namespace shade::privacy
