#include "shade/train/setup.h"

#include "shade/train/slots.h"

namespace shade::train {

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
