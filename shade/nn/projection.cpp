#include "shade/nn/projection.h"

#include <ATen/ATen.h>

#include <cmath>

#include "shade/nn/autograd.h"
#include "shade/nn/row_product.h"

namespace shade::nn {
namespace {

// Base and adapter as one function. The adapter's products are added to the base's while they are made, forward and
// backward, and the scale is applied at the adapter's rank: no pass over anything as wide as the input or the output.
struct Adapted : torch::autograd::Function<Adapted> {
  static at::Tensor forward(Context* context, const at::Tensor& x, const at::Tensor&, const Linear* base,
                            const Linear* down, const Linear* up, double scale) {
    remember(context, base);
    context->saved_data["down"] = reinterpret_cast<int64_t>(down);
    context->saved_data["up"] = reinterpret_cast<int64_t>(up);
    context->saved_data["scale"] = scale;
    const auto* bias = base->bias();
    auto y = row_product(x, base->weight().value(), bias != nullptr ? bias->value() : at::Tensor());
    const auto u = row_product(x, down->weight().value()).mul_(scale);
    rows(y).addmm_(rows(u), up->weight().value().t());
    context->save_for_backward({x, u});
    return y;
  }
  static Tensors backward(Context* context, Tensors grads) {
    const auto& base = recall<Linear>(context);
    const auto& down = *reinterpret_cast<const Linear*>(context->saved_data["down"].toInt());
    const auto& up = *reinterpret_cast<const Linear*>(context->saved_data["up"].toInt());
    const auto saved = context->get_saved_variables();
    const auto g = grads[0].contiguous();
    hand_over(up, saved[1], g);
    const auto du = linear_input_grad(g, up.weight()).mul_(context->saved_data["scale"].toDouble());
    hand_over(down, saved[0], du);
    at::Tensor dx;
    if (context->needs_input_grad(0)) {
      dx = linear_input_grad(g, base.weight());
      rows(dx).addmm_(rows(du), down.weight().value());
    }
    return {dx, {}, {}, {}, {}, {}};
  }
  static at::Tensor rows(const at::Tensor& x) { return x.view({-1, x.size(-1)}); }
};

}  // namespace

Projection::Projection(Parameters& parameters, const std::string& name, Linear::Options options,
                       const std::optional<LoraOptions>& lora)
    : base_(parameters, name, options) {
  if (!lora) return;
  base_.weight().freeze();
  if (base_.bias() != nullptr) base_.bias()->freeze();
  // As PEFT begins: kaiming_uniform_(A, a=sqrt(5)), and B = 0.
  const auto bound = 1 / std::sqrt(static_cast<double>(options.in));
  down_.emplace(parameters, name + ".lora_A",
                Linear::Options{.in = options.in, .out = lora->rank, .init = Init::uniform(bound)});
  up_.emplace(parameters, name + ".lora_B",
              Linear::Options{.in = lora->rank, .out = options.out, .init = Init::constant(0)});
  scale_ = lora->scale();
}

at::Tensor Projection::operator()(const at::Tensor& x) const {
  if (!adapted()) return base_(x);
  if (plain_operators()) return at::add(base_(x), (*up_)((*down_)(x)), scale_);
  return Adapted::apply(x, anchor(x.device()), &base_, &*down_, &*up_, scale_);
}

}  // namespace shade::nn
