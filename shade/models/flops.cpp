#include "shade/models/flops.h"

#include <ATen/ATen.h>

namespace shade::models {

double training_flops_per_token(const Model& model, const BatchShape& shape) {
  double flops = 3 * model.attention_flops(shape);
  for (const auto& weight : model.parameters().weights())
    flops += (weight.trainable() ? 6.0 : 4.0) * static_cast<double>(weight.numel()) *
             static_cast<double>(model.positions(weight, shape));
  return flops / static_cast<double>(model.tokens(shape));
}

at::Tensor real_tokens(const Model& model, const nn::Batch& batch) {
  if (batch.mask_BT.defined() && !batch.mask_BT.is_meta()) return batch.mask_BT.sum();
  return at::full({}, batch.ids_BT.defined() ? batch.ids_BT.numel() : batch.samples() * model.tokens({}), at::kLong);
}

}  // namespace shade::models
