// A linear layer over an activation, as one function: y = act(z) W^T + b.
//
// The activation's result is not kept: backward makes it anew from z, which it needs anyway for act'. That is a third
// (SwiGLU) to a half (GELU) of an MLP's activation memory, for one elementwise pass.
#pragma once

#include "shade/nn/linear.h"

namespace shade::nn {

at::Tensor gelu_linear(const Linear& layer, const at::Tensor& z);                             // gelu (tanh form)
at::Tensor swiglu_linear(const Linear& layer, const at::Tensor& gate, const at::Tensor& up);  // silu(gate) * up

}  // namespace shade::nn
