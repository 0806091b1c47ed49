// NCCL through libtorch, in the cuda preset. On a machine without a GPU this file compiles, links and reports that no
// device is there; it has not been run on one.
#ifndef USE_C10D_NCCL
#define USE_C10D_NCCL
#endif
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "shade/comm/backends/backends.h"
#include "shade/comm/errors.h"

namespace shade::comm {

void require_nccl() {
  SHADE_REQUIRE(nccl_devices() > 0,
                "the nccl backend needs a CUDA device and none is visible; check the driver and "
                "CUDA_VISIBLE_DEVICES, or use --comm.backend gloo");
}

c10::intrusive_ptr<c10d::Backend> make_nccl(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                                            const BackendOptions& options) {
  auto native = c10d::ProcessGroupNCCL::Options::create();
  native->timeout = std::chrono::duration_cast<std::chrono::milliseconds>(options.limit);
  native->group_name = options.name;
  const c10::cuda::CUDAGuard guard(options.device);
  auto group = c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, native);
  group->eagerConnectSingleDevice(options.device);
  return group;
}

c10::Device nccl_device(int local_rank) {
  require_nccl();
  const int devices = nccl_devices();
  SHADE_REQUIRE(devices == 1 || local_rank < devices, "local rank ", local_rank, " has no GPU of its own: ", devices,
                " visible on this host; start at most ", devices, " ranks here");
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(devices == 1 ? 0 : local_rank)};
}

bool nccl_built() { return true; }
int nccl_devices() { return static_cast<int>(c10::cuda::device_count()); }

std::string nccl_version() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return "unknown";
  return text(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

}  // namespace shade::comm
