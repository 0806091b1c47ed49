// What our autograd functions share beside nn/function.h: libtorch's header of functions takes seconds to compile, so
// sources alone include this one.
#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include "shade/nn/function.h"

namespace shade::nn {

using Context = torch::autograd::AutogradContext;  // what forward keeps for backward

// A layer outlives the graphs it is in; backward finds it again through its address.
template <class Layer>
void remember(Context* context, const Layer* layer) {
  context->saved_data["layer"] = reinterpret_cast<int64_t>(layer);
}
// Returns the layer that forward passed to remember().
template <class Layer>
const Layer& recall(Context* context) {
  return *reinterpret_cast<const Layer*>(context->saved_data["layer"].toInt());
}

}  // namespace shade::nn
