// Which operators libtorch has on a device.
#pragma once

#include <ATen/core/Tensor.h>

namespace shade::nn {

// Whether the device of `x` has a kernel for this operator ("aten::mm", "dtype"): one of its own, neither made of other
// operators nor run on the CPU for it.
bool has_kernel(const char* name, const char* overload, const at::Tensor& x);

}  // namespace shade::nn
