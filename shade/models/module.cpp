#include "shade/models/module.h"

#include "shade/nn/unit.h"

namespace shade::models {
at::Tensor Module::losses(const nn::Batch& batch) {
  if (!unit_ || nn::plain_operators()) return loss(batch);
  const auto input = batch.input();
  const auto device = input.defined() ? input.device() : at::Device(at::kCPU);
  const auto start = nn::enter_unit(parameters_.wiring, *unit_, {nn::anchor(device)})[0];
  const nn::AnchorScope scope(start);
  return nn::leave_unit(parameters_.wiring, *unit_, loss(batch));
}

}  // namespace shade::models
