#include "shade/train/setup.h"

#include "shade/train/slots.h"

namespace shade::train {

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
