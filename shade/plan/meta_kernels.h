// Shapes of operators for which libtorch has meta kernels in Python alone, sums of gradients in place as on devices,
// and the scratch memory of matrix products.
#pragma once

#include <ATen/record_function.h>

#include <memory>

namespace torch {
class Library;
}

namespace shade::plan {

// Registered while it lives. One at a time in a process.
class MetaKernels {
 public:
  MetaKernels();
  ~MetaKernels();
  MetaKernels(const MetaKernels&) = delete;
  MetaKernels& operator=(const MetaKernels&) = delete;

 private:
  std::unique_ptr<torch::Library> library_;
  at::CallbackHandle functions_;
};

}  // namespace shade::plan
