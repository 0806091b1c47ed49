#include "shade/nn/norm.h"

#include <ATen/ATen.h>

#include "shade/base/execution.h"
#include "shade/nn/autograd.h"
#include "shade/nn/kernels.h"
#include "shade/nn/launches.h"

namespace shade::nn {
namespace {

// What no kernel of meta does.
void say_norm_skipped(const char* name, const at::Tensor& x, double reads) {
  const auto bytes = static_cast<double>(x.nbytes());
  say_skipped(
      {.name = name, .element_size = static_cast<int64_t>(x.element_size()), .read = reads * bytes, .written = bytes});
}

struct Rms : torch::autograd::Function<Rms> {
  static at::Tensor forward(Context* context, const at::Tensor& x, const RmsNorm* layer) {
    remember(context, layer);
    if (fused(x)) {
      const auto [y, inverse] = fused_forward(x, layer->scale().value(), layer->eps());
      context->save_for_backward({x, inverse});
      return y;
    }
    const auto norm = at::linalg_vector_norm(x, 2, {-1}, true, wide(x.scalar_type()));
    const auto inverse = norm.square_().div_(static_cast<double>(x.size(-1))).add_(layer->eps()).rsqrt_();
    context->save_for_backward({x, inverse});
    return xhat(x, inverse).mul_(layer->scale().value());
  }
  static Tensors backward(Context* context, Tensors grads) {
    const auto& layer = recall<RmsNorm>(context);
    const auto saved = context->get_saved_variables();
    const auto& g = grads[0];
    const auto& scale = layer.scale().value();
    const auto dx =
        fused(saved[0]) ? fused_backward(g, saved[0], saved[1], scale) : input_grad(g, saved[0], saved[1], scale);
    if (const auto* trained_scale = trained(&layer.scale())) {
      // Rounded to a narrow type it would be widened again: two operators more.
      const auto normal = few_launches(g) ? saved[0] * saved[1] : xhat(saved[0], saved[1]);
      layer.wiring().take(ScaleShiftGrad{as_BTD(normal), as_BTD(g), trained_scale, nullptr});
    }
    return {dx, {}};
  }
  // The device has the whole of it, in fp32 and rounded once.
  static bool fused(const at::Tensor& x) {
    if (x.is_meta()) return few_launches(x);
    return !x.is_cpu() && has_kernel("aten::_fused_rms_norm_backward", "", x) && x.numel() > 0;
  }
  static std::tuple<at::Tensor, at::Tensor> fused_forward(const at::Tensor& x, const at::Tensor& scale, double eps) {
    if (!x.is_meta()) return at::_fused_rms_norm(x, x.size(-1), scale, eps);
    say_norm_skipped("rms_norm", x, 1);
    auto shape = x.sizes().vec();
    shape.back() = 1;
    return {at::empty_like(x), at::empty(shape, x.options().dtype(wide(x.scalar_type())))};
  }
  static at::Tensor fused_backward(const at::Tensor& g, const at::Tensor& x, const at::Tensor& inverse,
                                   const at::Tensor& scale) {
    if (!x.is_meta()) return std::get<0>(at::_fused_rms_norm_backward(g, x, g.size(-1), inverse, scale, {true, false}));
    say_norm_skipped("rms_norm_backward", x, 2);
    return at::empty_like(x);
  }
  // The factor stays in fp32: rounded, it would shift a whole position by up to 0.4 % in bf16.
  static at::Tensor xhat(const at::Tensor& x, const at::Tensor& inverse) { return (x * inverse).to(x.scalar_type()); }
  // dx = (gs - xhat mean(gs xhat)) / rms, gs = g * scale. The difference of two near numbers: rounded once, at its end.
  static at::Tensor input_grad(const at::Tensor& g, const at::Tensor& x, const at::Tensor& inverse,
                               const at::Tensor& scale) {
    const auto normal = x * inverse;
    auto dx = g.to(normal.scalar_type()).mul(scale);
    const auto mean = (dx * normal).sum({-1}, true).div_(-static_cast<double>(g.size(-1)));
    return dx.addcmul_(normal, mean).mul_(inverse).to(g.scalar_type());
  }
};

// libtorch has no shape function for these two in C++.
std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm(const at::Tensor& x, const at::Tensor& scale,
                                                          const at::Tensor& shift, double eps) {
  if (!x.is_meta()) return at::native_layer_norm(x, x.size(-1), scale, shift, eps);
  say_norm_skipped("layer_norm", x, 1);
  auto shape = x.sizes().vec();
  shape.back() = 1;
  const auto statistics = x.options().dtype(wide(x.scalar_type()));
  return {at::empty_like(x), at::empty(shape, statistics), at::empty(shape, statistics)};
}
at::Tensor layer_norm_input_grad(const at::Tensor& g, const at::Tensor& x, const at::Tensor& mean,
                                 const at::Tensor& inverse, const at::Tensor& scale, const at::Tensor& shift) {
  if (x.is_meta()) {
    say_norm_skipped("layer_norm_backward", x, 2);
    return at::empty_like(x);
  }
  return std::get<0>(
      at::native_layer_norm_backward(g, x, x.size(-1), mean, inverse, scale, shift, {true, false, false}));
}

at::Tensor normalised(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& inverse) {
  return (x - mean).mul_(inverse).to(x.scalar_type());
}

struct Layer : torch::autograd::Function<Layer> {
  static at::Tensor forward(Context* context, const at::Tensor& x, const LayerNorm* layer) {
    remember(context, layer);
    const auto [y, mean, inverse] = layer_norm(x, layer->scale().value(), layer->shift().value(), layer->eps());
    context->save_for_backward({x, mean, inverse});
    return y;
  }
  static Tensors backward(Context* context, Tensors grads) {
    const auto& layer = recall<LayerNorm>(context);
    const auto saved = context->get_saved_variables();
    const auto g = grads[0].contiguous();
    const auto dx =
        layer_norm_input_grad(g, saved[0], saved[1], saved[2], layer.scale().value(), layer.shift().value());
    const auto* scale = trained(&layer.scale());
    const auto* shift = trained(&layer.shift());
    if (scale != nullptr || shift != nullptr)
      layer.wiring().take(ScaleShiftGrad{as_BTD(normalised(saved[0], saved[1], saved[2])), as_BTD(g), scale, shift});
    return {dx, {}};
  }
};

struct Modulated : torch::autograd::Function<Modulated> {
  static at::Tensor forward(Context* context, const at::Tensor& x, const at::Tensor& shift, const at::Tensor& scale,
                            double eps) {
    const auto [y, mean, inverse] = layer_norm(x, {}, {}, eps);
    context->save_for_backward({x, mean, inverse, scale});
    return at::addcmul(shift.unsqueeze(1), y, (scale + 1).unsqueeze_(1));
  }
  static Tensors backward(Context* context, Tensors grads) {
    const auto saved = context->get_saved_variables();
    const auto& [x, mean, inverse, scale] = std::tie(saved[0], saved[1], saved[2], saved[3]);
    const auto& g = grads[0];
    const auto dscale = (normalised(x, mean, inverse).mul_(g)).sum(1);
    const auto dnormal = g * (scale + 1).unsqueeze_(1);
    const auto dx = layer_norm_input_grad(dnormal, x, mean, inverse, {}, {});
    return {dx, g.sum(1), dscale, {}};
  }
};

struct Gated : torch::autograd::Function<Gated> {
  static at::Tensor forward(Context* context, const at::Tensor& x, const at::Tensor& gate, const at::Tensor& y) {
    context->save_for_backward({gate, y});
    return at::addcmul(x, gate.unsqueeze(1), y);
  }
  static Tensors backward(Context* context, Tensors grads) {
    const auto saved = context->get_saved_variables();
    return {grads[0], (grads[0] * saved[1]).sum(1), grads[0] * saved[0].unsqueeze(1)};
  }
};

}  // namespace

RmsNorm::RmsNorm(Parameters& parameters, const std::string& name, int64_t width, double eps)
    : scale_(&parameters.add(name + ".weight", {width}, Init::constant(1))), eps_(eps), wiring_(&parameters.wiring) {}

at::Tensor RmsNorm::operator()(const at::Tensor& x) const {
  if (!plain_operators()) return Rms::apply(x, this);
  const auto wide_x = x.to(wide(x.scalar_type()));
  return (wide_x * (wide_x.square().mean(-1, true) + eps_).rsqrt()).to(x.scalar_type()) * scale_->value();
}

LayerNorm::LayerNorm(Parameters& parameters, const std::string& name, int64_t width, double eps)
    : scale_(&parameters.add(name + ".weight", {width}, Init::constant(1))),
      shift_(&parameters.add(name + ".bias", {width}, Init::constant(0))),
      eps_(eps),
      wiring_(&parameters.wiring) {}

at::Tensor LayerNorm::operator()(const at::Tensor& x) const {
  if (plain_operators()) return at::layer_norm(x, x.size(-1), scale_->value(), shift_->value(), eps_);
  return Layer::apply(x, this);
}

at::Tensor modulated_norm(const at::Tensor& x_BTD, const at::Tensor& shift_BD, const at::Tensor& scale_BD, double eps) {
  if (plain_operators())
    return at::layer_norm(x_BTD, x_BTD.size(-1), {}, {}, eps) * (scale_BD + 1).unsqueeze(1) + shift_BD.unsqueeze(1);
  return Modulated::apply(x_BTD, shift_BD, scale_BD, eps);
}

at::Tensor gated_add(const at::Tensor& x_BTD, const at::Tensor& gate_BD, const at::Tensor& y_BTD) {
  if (plain_operators()) return x_BTD + gate_BD.unsqueeze(1) * y_BTD;
  return Gated::apply(x_BTD, gate_BD, y_BTD);
}

}  // namespace shade::nn
