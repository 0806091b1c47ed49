// Shapes of operators for which libtorch has meta kernels in Python alone, sums of gradients in place as on devices,
// and the scratch memory of matrix products.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include "shade/base/units.h"

namespace shade::plan {

// Of its thread, while it lives; what replaces kernels on meta stays registered, because libtorch has them for the
// whole process: nothing else computes on meta.
class MetaKernels {
 public:
  MetaKernels();
  ~MetaKernels();
  MetaKernels(const MetaKernels&) = delete;
  MetaKernels& operator=(const MetaKernels&) = delete;

 private:
  at::CallbackHandle functions_;
};

// Memory that libtorch's CPU kernels allocate for a matrix product besides its result, which operators on meta don't.

// Scratch memory of the product of [M, K] and [K, N] on meta, or of batches of them; zero in a plan for an accelerator.
// Measured on this machine's CPU by a product of that shape, once per shape and process; by a smaller one where it
// would take long.
Bytes product_scratch(const at::Tensor& a, const at::Tensor& b);

}  // namespace shade::plan
