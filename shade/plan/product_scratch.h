// Memory that libtorch's CPU kernels allocate for a matrix product besides its result, which operators on meta don't.
#pragma once

#include <ATen/core/Tensor.h>

#include "shade/base/units.h"

namespace shade::plan {

// Scratch memory of the product [M, inner] x [inner, N] or of a batch of them, whose result on meta is `product`; zero
// in a plan for an accelerator. Measured once per process by a small product on this machine's CPU.
Bytes product_scratch(const at::Tensor& product, int64_t inner);

}  // namespace shade::plan
