// Model FLOPs: what MFU counts. They follow from the model and what is trained, whatever a method computes besides.
//
//   FLOPs per token = 6 N_trained + 4 N_frozen + 12 L H Q T
//
// N counts the elements of weights that are factors of matrix products: embedding tables are none, unless tied to the
// head; a weight used once per sample (a classifier, DiT's modulation) counts 1 / T. Each costs 2 FLOPs forward, 2 for
// the gradient of its input and, if it is trained, 2 for its own. Attention (L layers of H heads of size Q over T
// tokens) is counted whole although causal kernels do half of it, recomputation is not counted, and the gradient of the
// input is counted below the first trained layer too: the convention of PaLM and torchtitan, with frozen weights added.
#pragma once

#include "shade/models/model.h"

namespace shade::models {

double training_flops_per_token(const Model& model, const BatchShape& shape);

// Tokens of each sample of a batch without padding, or patches of its image: [B] int64, of a masked batch on its
// device, not yet read by the host. The sum of their squares over their sum is the length of the sample that the mean
// token is in; at that length the FLOPs per token are those of all samples together, attention included.
at::Tensor real_tokens(const Model& model, const nn::Batch& batch);

// Positions that are computed for a batch, padding with them.
struct Positions {
  int64_t samples = 0, each = 0;
};
Positions padded_positions(const Model& model, const nn::Batch& batch);

}  // namespace shade::models
