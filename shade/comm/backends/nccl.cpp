// NCCL as far as it is here: in libshade_cuda.so, where that can be loaded and there are GPUs.
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "shade/base/cuda_library.h"
#include "shade/comm/backends/nccl_cuda.h"
#include "shade/comm/errors.h"

namespace shade::comm {
namespace {

const NcclFunctions& functions() { return CudaLibrary::get().table<NcclFunctions>(NcclFunctions::kName); }

}  // namespace

void require_nccl() {
  SHADE_REQUIRE(
      visible_gpus() > 0,
      "no CUDA device is visible, which the nccl backend (--device cuda) needs; check the driver (nvidia-smi) "
      "and CUDA_VISIBLE_DEVICES, or compute on the CPU: --device cpu");
  SHADE_REQUIRE(nccl_built(), "the nccl backend (--device cuda) can't be used: ", CudaLibrary::get().why_not(),
                ". Or compute on the CPU: --device cpu");
}

c10::intrusive_ptr<c10d::Backend> make_nccl(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                                            const BackendOptions& options) {
  require_nccl();
  return functions().make(std::move(store), rank, size, options);
}

c10::Device nccl_device(int local_rank) {
  require_nccl();
  const int devices = nccl_devices();
  SHADE_REQUIRE(devices == 1 || local_rank < devices, "local rank ", local_rank, " has no GPU of its own: ", devices,
                " visible on this host; start at most ", devices, " ranks here");
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(devices == 1 ? 0 : local_rank)};
}

bool nccl_built() { return CudaLibrary::get().loaded(); }
int nccl_devices() { return visible_gpus() > 0 && nccl_built() ? visible_gpus() : 0; }

std::string nccl_version() {
  if (!nccl_built()) return "none";
  const int version = functions().version();
  return text(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

}  // namespace shade::comm
