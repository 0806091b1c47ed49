#include "shade/train/setup.h"

#include <ATen/Parallel.h>

#include "shade/train/step.h"

namespace shade::train {

void use_threads(int64_t wanted, int ranks) {
  if (wanted > 0)
    at::set_num_threads(static_cast<int>(wanted));
  else if (ranks > 1)
    at::set_num_threads(1);
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
