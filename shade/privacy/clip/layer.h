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

// Coefficients in a gradient's type, never rounded up: in bf16 that would lift a sample above its norm by up to 0.4 %.
at::Tensor rounded_down(const at::Tensor& c_B, at::ScalarType type);

nn::LayerGrad selected(const nn::LayerGrad& grad, const at::Tensor& samples);  // only these samples
// Its sum over samples is the sum weighted by c. Never in place: a gradient may belong to two layers.
nn::LayerGrad weighted(const nn::LayerGrad& grad, const at::Tensor& c_B);

}  // namespace shade::privacy
