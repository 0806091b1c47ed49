#include "shade/nn/kernels.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace shade::nn {

bool has_kernel(const char* name, const char* overload, const at::Tensor& x) {
  const auto found = c10::Dispatcher::singleton().findSchema({name, overload});
  return found && found->hasKernelForDispatchKey(x.options().computeDispatchKey());
}

}  // namespace shade::nn
