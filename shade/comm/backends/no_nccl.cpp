// Stands in for nccl.cpp in a build without CUDA.
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "shade/comm/backends/backends.h"
#include "shade/comm/errors.h"

namespace shade::comm {

void require_nccl() {
  throw UsageError(
      "this build has no NCCL backend; use --comm.backend gloo, or build the cuda preset: "
      "tools/bootstrap cuda && cmake --preset cuda && cmake --build --preset cuda");
}

c10::intrusive_ptr<c10d::Backend> make_nccl(c10::intrusive_ptr<c10d::Store>, int, int, const BackendOptions&) {
  require_nccl();
  return nullptr;
}

c10::Device nccl_device(int) {
  require_nccl();
  return c10::kCPU;
}

bool nccl_built() { return false; }
int nccl_devices() { return 0; }
std::string nccl_version() { return "not in this build (preset cuda has it)"; }

}  // namespace shade::comm
