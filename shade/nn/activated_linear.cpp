#include "shade/nn/activated_linear.h"

#include <ATen/ATen.h>

#include "shade/nn/activations.h"
#include "shade/nn/autograd.h"
#include "shade/nn/row_product.h"

namespace shade::nn {
namespace {

at::Tensor bias_of(const Linear& layer) { return layer.bias() != nullptr ? layer.bias()->value() : at::Tensor(); }

struct Gelu : torch::autograd::Function<Gelu> {
  static at::Tensor forward(Context* context, const at::Tensor& z, const Linear* layer) {
    remember(context, layer);
    context->save_for_backward({z});
    return row_product(gelu_forward(z), layer->weight().value(), bias_of(*layer));
  }
  static Tensors backward(Context* context, Tensors grads) {
    const auto& layer = recall<Linear>(context);
    const auto z = context->get_saved_variables()[0];
    const auto g = grads[0].contiguous();
    if (layer.weight().trainable())
      hand_over(layer, gelu_forward(z), g);
    else
      hand_over(layer, {}, g);
    return {gelu_input_grad(linear_input_grad(g, layer.weight()), z), {}};
  }
};

struct Swiglu : torch::autograd::Function<Swiglu> {
  static at::Tensor forward(Context* context, const at::Tensor& gate, const at::Tensor& up, const Linear* layer) {
    remember(context, layer);
    context->save_for_backward({gate, up});
    return row_product(swiglu_forward(gate, up), layer->weight().value(), bias_of(*layer));
  }
  static Tensors backward(Context* context, Tensors grads) {
    const auto& layer = recall<Linear>(context);
    const auto saved = context->get_saved_variables();
    const auto g = grads[0].contiguous();
    auto active = silu_forward(saved[0]);
    auto da = linear_input_grad(g, layer.weight());
    if (layer.weight().trainable())
      hand_over(layer, active * saved[1], g);
    else
      hand_over(layer, {}, g);
    auto dup = active.mul_(da);
    auto dgate = silu_input_grad(da.mul_(saved[1]), saved[0]);
    return {dgate, dup, {}};
  }
};

}  // namespace

at::Tensor gelu_linear(const Linear& layer, const at::Tensor& z) {
  if (plain_operators()) return layer(at::gelu(z, "tanh"));
  return Gelu::apply(z, &layer);
}
at::Tensor swiglu_linear(const Linear& layer, const at::Tensor& gate, const at::Tensor& up) {
  if (plain_operators()) return layer(at::silu(gate) * up);
  return Swiglu::apply(gate, up, &layer);
}

}  // namespace shade::nn
