// Memory that libtorch's CPU kernels allocate for a matrix product besides its result, which operators on meta don't.
#pragma once

#include <ATen/core/Tensor.h>

#include "shade/base/units.h"

namespace shade::plan {

// Scratch memory of the product of [M, K] and [K, N] on meta, or of batches of them; zero in a plan for an accelerator.
// Measured on this machine's CPU by a product of that shape, once per shape and process; by a smaller one where it
// would take long.
Bytes product_scratch(const at::Tensor& a, const at::Tensor& b);

}  // namespace shade::plan
