// A layer's squared norms into the micro-batch's: which norm file answers for which kind of layer.
#pragma once

#include "shade/privacy/clip/sample_norms.h"

namespace shade::privacy {

struct NormOptions {
  NormAlgorithm algorithm = NormAlgorithm::automatic;
  int64_t tile = 0;
  Bytes workspace = MiB(4);
};

// Of everything in the layer, without keeping any of it. The layer was admitted before.
void add_norms(const nn::LayerGrad& grad, const NormOptions& options, SampleNorms& norms);

// A linear weight's rows met their samples' gradients: norm, and what a tied table needs later.
void add_norms(const nn::LinearGrad& grad, const SampleGradients& gradients, SampleNorms& norms);

// The cheaper algorithm by products: Gram while T (P + D) < 2 P D or so (half of the tiles are mirror images).
NormAlgorithm cheaper(const nn::LinearGrad& grad, int64_t tile);

}  // namespace shade::privacy
