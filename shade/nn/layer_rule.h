// The gradients of a layer that is of none of the kinds in nn/tap.h, as the layer itself says them.
//
// Only sample_gradients() must be given; plain sums and norms follow from it. A layer whose weight is a matrix that
// many positions share is better handed over as LinearGrad (a convolution unfolds its input, nn/patch.cpp): its
// samples' gradients are then never made.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "shade/nn/weight.h"

namespace shade::nn {

// Asked inside of GradientTap::take() alone, while the unit's weights are bound, on autograd's thread and without a
// graph. Every list has one tensor per weight of weights(), in that order.
class LayerRule {
 public:
  virtual ~LayerRule() = default;

  virtual std::vector<const Weight*> weights() const = 0;  // the trained ones; at least one

  // Each sample's gradient, [B, the weight's shape]. The same factors must give the same bits: methods of two passes
  // measure the first answer and sum the second.
  virtual std::vector<at::Tensor> sample_gradients() const = 0;

  // Summed over samples, in the weight's shape: for training without privacy.
  virtual std::vector<at::Tensor> sums() const;

  // Squared norms of sample_gradients(), [B] each, in fp64, for methods that don't keep those. No smaller than the
  // truth: a clipped sample would move the sum by more than the clip norm. Empty: taken from sample_gradients().
  virtual std::vector<at::Tensor> squares() const { return {}; }
};

}  // namespace shade::nn
