#include "shade/train/step/slots.h"

namespace shade::train {
namespace {

// Neighbours are one range, so that the update is cut as rarely as possible.
std::vector<optim::Range> without_decay(std::span<const shard::Run> runs) {
  std::vector<optim::Range> out;
  for (const auto& run : runs) {
    if (decays(*run.weight)) continue;
    if (out.empty() || out.back().end != run.at) out.push_back({run.at, run.at});
    out.back().end = run.at + run.size;
  }
  return out;
}

}  // namespace

std::vector<optim::Slot> slots_of(std::span<const shard::LocalShard> shards) {
  std::vector<optim::Slot> slots;
  for (const auto& shard : shards)
    slots.push_back({.name = shard.name,
                     .master = shard.master,
                     .gradient = shard.gradient,
                     .offset = shard.offset,
                     .without_decay = without_decay(shard.runs)});
  return slots;
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
