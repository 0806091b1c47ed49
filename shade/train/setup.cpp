#include "shade/train/setup.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <thread>

#include "shade/base/log.h"
#include "shade/train/slots.h"

namespace shade::train {

void use_threads(int64_t wanted, const comm::Place& place) {
  const int64_t cores = std::thread::hardware_concurrency(), all = wanted * place.local_size;
  if (place.rank == 0 && cores > 0 && all > cores)
    log::warning("--threads ", wanted, place.local_size > 1 ? text(" on ", place.local_size, " ranks of a host") : "",
                 ": ", all, " threads share ", cores, cores == 1 ? " core" : " cores",
                 " and slow each other down; choose at most ", std::max<int64_t>(1, cores / place.local_size));
  if (wanted > 0)
    at::set_num_threads(static_cast<int>(wanted));
  else if (place.size > 1)
    at::set_num_threads(1);
}

at::Device device_of(const comm::World& world) {
  if (world.backend() != comm::BackendKind::nccl) return at::kCPU;
  return {at::kCUDA, static_cast<c10::DeviceIndex>(world.place().local_rank)};
}

std::unique_ptr<optim::Optimizer> prepared_optimizer(const optim::OptimConfig& config, shard::Runtime& runtime) {
  auto optimizer = optim::make_optimizer(config);
  optimizer->prepare(slots_of(runtime.shards()),
                     [&](const std::string&, int64_t elements, const at::TensorOptions& wanted) {
                       return runtime.storage().zeros(elements, wanted.dtype().toScalarType(), MemoryKind::optimizer);
                     });
  runtime.updated();  // the gradients that prepare() looked at
  return optimizer;
}

}  // namespace shade::train
