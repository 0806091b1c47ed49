// NCCL through libtorch, in libshade_cuda.so. Compiled and loaded on machines without a GPU; not run on one with.
#ifndef USE_C10D_NCCL
#define USE_C10D_NCCL
#endif
#include "shade/comm/backends/nccl_cuda.h"

#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

namespace shade::comm {
namespace {

c10::intrusive_ptr<c10d::Backend> make(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                                       const BackendOptions& options) {
  auto native = c10d::ProcessGroupNCCL::Options::create();
  native->timeout = std::chrono::duration_cast<std::chrono::milliseconds>(options.limit);
  native->group_name = options.name;
  const c10::cuda::CUDAGuard guard(options.device);
  auto group = c10::make_intrusive<c10d::ProcessGroupNCCL>(std::move(store), rank, size, std::move(native));
  group->eagerConnectSingleDevice(options.device);
  return group;
}

int version() {
  int number = 0;
  return ncclGetVersion(&number) == ncclSuccess ? number : 0;
}

}  // namespace
}  // namespace shade::comm

extern "C" __attribute__((visibility("default"))) const shade::comm::NcclFunctions* shade_nccl_functions() {
  static constexpr shade::comm::NcclFunctions kFunctions{.make = shade::comm::make, .version = shade::comm::version};
  return &kFunctions;
}
