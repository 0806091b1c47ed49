#include "shade/nn/linear.h"

#include <ATen/ATen.h>

#include "shade/nn/autograd.h"
#include "shade/nn/row_product.h"

namespace shade::nn {

Linear::Linear(Parameters& parameters, const std::string& name, Options options)
    : weight_(&parameters.add(name + ".weight", {options.out, options.in}, options.init)), wiring_(&parameters.wiring) {
  if (options.bias) bias_ = &parameters.add(name + ".bias", {options.out}, Init::constant(0));
}

at::Tensor linear_input_grad(const at::Tensor& g, const Weight& weight) {
  const auto w_PD = weight.value().view({weight.shape()[0], -1});
  return treats_rows_differently(g, w_PD.size(1)) ? row_product(g, w_PD.t()) : at::matmul(g, w_PD);
}

void hand_over(const Linear& layer, const at::Tensor& a, const at::Tensor& g) {
  const auto* weight = trained(&layer.weight());
  const auto* bias = trained(layer.bias());
  if (weight == nullptr && bias == nullptr) return;
  layer.wiring().take(LinearGrad{weight != nullptr ? as_BTD(a) : at::Tensor(), as_BTD(g), weight, bias});
}

namespace {

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  static at::Tensor forward(Context* context, const at::Tensor& x, const at::Tensor&, const Linear* layer) {
    remember(context, layer);
    // A frozen weight costs nothing: the activation is kept only for a gradient that somebody wants.
    if (layer->weight().trainable()) context->save_for_backward({x});
    return row_product(x, layer->weight().value(), layer->bias() ? layer->bias()->value() : at::Tensor());
  }
  static Tensors backward(Context* context, Tensors grads) {
    const auto& layer = recall<Linear>(context);
    const auto g = grads[0].contiguous();
    at::Tensor dx;
    if (context->needs_input_grad(0)) dx = linear_input_grad(g, layer.weight());
    hand_over(layer, layer.weight().trainable() ? context->get_saved_variables()[0] : at::Tensor(), g);
    return {dx, {}, {}};
  }
};

}  // namespace

at::Tensor Linear::operator()(const at::Tensor& x) const {
  if (plain_operators()) return at::linear(x, weight_->value(), bias_ != nullptr ? bias_->value() : at::Tensor());
  return LinearFunction::apply(x, anchor(x.device()), this);
}

}  // namespace shade::nn
