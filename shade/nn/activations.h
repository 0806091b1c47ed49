// Activations in which a number's bits don't depend on its place.
//
// libtorch's kernels take numbers in whole vectors. What is left over at the end of a thread's share they compute by
// another exp, which rounds differently: a record would change with its place in the batch. Here all shares are of
// whole vectors, and the last one is filled up.
#pragma once

#include <ATen/core/Tensor.h>

namespace shade::nn {

// Differentiable.
at::Tensor silu_activation(const at::Tensor& x);
at::Tensor sigmoid_activation(const at::Tensor& x);

// For functions with their own backward. Results are contiguous. Gelu is the one by tanh.
at::Tensor silu_forward(const at::Tensor& x);
at::Tensor silu_input_grad(const at::Tensor& g, const at::Tensor& x);
at::Tensor swiglu_forward(const at::Tensor& gate, const at::Tensor& up);  // silu(gate) up
at::Tensor gelu_forward(const at::Tensor& x);
at::Tensor gelu_input_grad(const at::Tensor& g, const at::Tensor& x);

}  // namespace shade::nn
