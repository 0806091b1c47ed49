// Micro-batches of known shapes, whatever records were drawn.
//
// A kernel that is chosen by the size of its input rounds differently from another one, in bf16 by up to 2^-8. If the
// number of samples followed the drawn batch, one record more would change how all others are rounded, and the sum
// would move by more than that record's clipped gradient. So private steps compute every micro-batch at one size or, if
// samples differ in length, at one size for each length of the grid (train/micro_shapes.h).
#pragma once

#include <map>
#include <vector>

#include "shade/nn/batch.h"
#include "shade/train/micro_shapes.h"

namespace shade::train {

// A batch of the same shapes that holds nothing: zeros, mask ones.
nn::Batch blank(const nn::Batch& batch);

class FixedShapes {
 public:
  explicit FixedShapes(const MicroShapes& shapes);  // that vary on the grid, or not at all

  // With blank samples at the end (zeros, mask ones) up to the number for their length; an empty batch is all blank.
  // Throws UsageError if the batch has more samples, a length that is not on the grid, or fields of another shape than
  // the first batch of that length had.
  nn::Batch padded(const nn::Batch& batch);

 private:
  SampleShape shape_of(const nn::Batch& batch) const;

  MicroShapes shapes_;
  std::map<SampleShape, std::vector<std::vector<int64_t>>> fields_;  // of the first batch of each length
};

}  // namespace shade::train
