// What clipping does to the gradient of a layer as a whole, whatever its kind.
#pragma once

#include <vector>

#include "shade/nn/tap.h"

namespace shade::privacy {

// Each sample's gradient of (rows of) one weight: [B, ...].
struct SampleGradients {
  at::Tensor gradients_B;
  const nn::Weight* weight = nullptr;
  int64_t row = 0;
  bool last = true;
};

std::vector<const nn::Weight*> weights_of(const nn::LayerGrad& grad);  // the trainable ones
inline std::vector<const nn::Weight*> weights_of(const SampleGradients& grad) { return {grad.weight}; }
const at::Tensor& output_gradient(const nn::LayerGrad& grad);
std::vector<SampleGradients> own_gradients(const nn::OwnGrad& grad);  // of each of its weights

// The same layer, to be kept beyond take(): an own layer's gradients are made now, because they may depend on weights,
// which are gone after backward. For methods that keep layers as they are.
nn::LayerGrad keepable(nn::LayerGrad grad);

// Every tensor of an entry, undefined ones too.
template <class Visit>
void for_each_tensor(const nn::LayerGrad& grad, const Visit& visit) {
  if (const auto* linear = std::get_if<nn::LinearGrad>(&grad)) visit(linear->a_BTD), visit(linear->g_BTP);
  if (const auto* lookup = std::get_if<nn::EmbeddingGrad>(&grad)) visit(lookup->g_BTD);
  if (const auto* norm = std::get_if<nn::ScaleShiftGrad>(&grad)) visit(norm->xhat_BTD), visit(norm->g_BTD);
  if (const auto* added = std::get_if<nn::AddedGrad>(&grad)) visit(added->g_BTD);
  if (const auto* own = std::get_if<nn::OwnGrad>(&grad)) visit(own->g_B);
}
template <class Visit>
void for_each_tensor(const SampleGradients& grad, const Visit& visit) {
  visit(grad.gradients_B);
}

}  // namespace shade::privacy
