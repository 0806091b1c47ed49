// A sample's gradient against differences of its loss: (f(w + h v) - f(w - h v)) / 2h = g . v for random directions v,
// in fp64. Reads losses alone, so it holds for models whose backward is entirely their own.
#pragma once

#include <ATen/core/Tensor.h>

#include "shade/proof/reference.h"

namespace shade::proof {

// The mark: differences in fp64 are exact to about 1e-9 of the gradient's norm.
inline constexpr double kDifferenceMark = 1e-6;

struct DifferenceOptions {
  int directions = 3;  // of normal numbers, over all trainable weights together
  uint64_t seed = 1;
};

// The largest |difference - g . v| / |g| over samples of the batch and directions; infinity if a loss is not finite
// where the gradient is. Samples whose gradient is not finite are left out. `reference` must be of fp64.
double largest_difference(Reference& reference, const nn::Batch& batch, const DifferenceOptions& options);

}  // namespace shade::proof
