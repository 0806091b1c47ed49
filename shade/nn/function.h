// What our autograd functions share.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "shade/nn/parameters.h"

namespace shade::nn {

using Tensors = std::vector<at::Tensor>;  // inputs, results or gradients; undefined: no gradient

// Weights are no autograd leaves, so a layer whose input needs no gradient (ids, images) hangs its backward on this.
// On the device of what hangs on it: backward runs on a thread for each device, and a unit is left on the one it was
// entered on.
const at::Tensor& anchor(at::Device device = at::kCPU);

// `x`, which needs no gradient, so that backward of what is made of it reaches `start`. Neither gets a gradient: the
// anchor's would be that of every record that ever hung on it.
at::Tensor hang(const at::Tensor& x, const at::Tensor& start);

// A scope in which layers of this thread hang on `start`, what came out of nn::enter_unit: backward leaves the unit
// after all of them. Not nested.
class AnchorScope {
 public:
  explicit AnchorScope(at::Tensor start);  // until the end of the scope
  ~AnchorScope();
  AnchorScope(const AnchorScope&) = delete;
  AnchorScope& operator=(const AnchorScope&) = delete;
};

// A trainable weight, or null: what a LayerGrad carries.
inline const Weight* trained(const Weight* weight) {
  return weight != nullptr && weight->trainable() ? weight : nullptr;
}

// The type in which sums and statistics are taken: fp32 at least.
inline at::ScalarType wide(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

// [B, ..., D] as [B, T, D]; [B, D] as [B, 1, D].
at::Tensor as_BTD(const at::Tensor& x);

// Layers as plain operators of libtorch, which autograd differentiates by itself.
//
// A layer is a function of ours, whose backward is written by hand and reports activations and output gradients to the
// tap. What judges those reports must not read them: while a PlainOperators lives, the layers that this thread calls
// are made of libtorch's own operators. Then a weight is an ordinary leaf (bound with requires_grad), no tap hears of
// anything, no unit is entered and nothing is recomputed. It concerns forward alone: the graph that was made stays
// plain.
//
// Slower, and of more memory: for checks (proof/reference.h). A layer from outside that has its own function may ask
// plain_operators() too; one that doesn't is checked by differences of losses (proof/check_gradients.h).
bool plain_operators();  // for layers: of this thread, now

// A scope in which plain_operators() is true on this thread. Scopes may be nested.
class PlainOperators {
 public:
  PlainOperators();
  ~PlainOperators();
  PlainOperators(const PlainOperators&) = delete;
  PlainOperators& operator=(const PlainOperators&) = delete;

 private:
  bool before_;
};

}  // namespace shade::nn
