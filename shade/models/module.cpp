#include "shade/models/module.h"

#include "shade/nn/unit.h"

namespace shade::models {
namespace {

at::Device device_of(const nn::Batch& batch) {
  for (const auto* tensor : {&batch.ids_BT, &batch.images_BCHW, &batch.x_BD})
    if (tensor->defined()) return tensor->device();
  return batch.fields.empty() ? at::Device(at::kCPU) : batch.fields.begin()->second.device();
}

}  // namespace

at::Tensor Module::losses(const nn::Batch& batch) {
  if (!unit_ || nn::plain_operators()) return loss(batch);
  const auto start = nn::enter_unit(parameters_.wiring, *unit_, {nn::anchor(device_of(batch))})[0];
  const nn::AnchorScope scope(start);
  return nn::leave_unit(parameters_.wiring, *unit_, loss(batch));
}

}  // namespace shade::models
