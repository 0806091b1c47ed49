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

Positions padded_positions(const Model& model, const nn::Batch& batch) {
  if (batch.ids_BT.defined()) return {batch.ids_BT.size(0), batch.ids_BT.size(1)};
  return {batch.row_count(), model.tokens({})};
}

at::Tensor real_tokens(const Model& model, const nn::Batch& batch) {
  if (batch.mask_BT.defined() && !batch.mask_BT.is_meta()) return batch.mask_BT.sum(1);
  const auto [samples, each] = padded_positions(model, batch);
  return at::full({samples}, each, at::kLong);
}

}  // namespace shade::models
