// Micro-batches of one shape, whatever records were drawn.
//
// In bf16 a kernel that is chosen by the size of its input rounds differently from another one, by up to 2^-8. If the
// number of samples followed the drawn batch, one record more would change how all others are rounded, and the sum
// would move by more than that record's clipped gradient. So private steps in bf16 compute every micro-batch at one
// size.
#pragma once

#include <vector>

#include "shade/nn/batch.h"

namespace shade::train {

class FixedShapes {
 public:
  explicit FixedShapes(int64_t samples) : samples_(samples) {}

  // With blank samples at the end (zeros, mask ones) up to the fixed number; an empty batch is all blank. Throws
  // UsageError if the batch has more samples, or samples of another shape than the first one had.
  nn::Batch padded(const nn::Batch& batch);

 private:
  int64_t samples_;
  std::vector<std::vector<int64_t>> sample_shapes_;  // field by field, of the first batch
};

}  // namespace shade::train
