#include "shade/nn/patch.h"

#include <ATen/ATen.h>

#include <cmath>

#include "shade/nn/autograd.h"
#include "shade/nn/row_product.h"

namespace shade::nn {
namespace {

at::Tensor unfolded(const at::Tensor& images, int64_t p) {
  const auto b = images.size(0), c = images.size(1), h = images.size(2) / p, w = images.size(3) / p;
  return images.view({b, c, h, p, w, p}).permute({0, 2, 4, 1, 3, 5}).reshape({b, h * w, c * p * p});
}

struct PatchFunction : torch::autograd::Function<PatchFunction> {
  static at::Tensor forward(Context* context, const at::Tensor&, const at::Tensor& images,
                            const PatchEmbedding* layer) {
    remember(context, layer);
    context->save_for_backward({images});
    const auto& weight = layer->weight();
    return row_product(unfolded(images, layer->patch()), weight.value().view({weight.shape()[0], -1}),
                       layer->bias().value());
  }
  static Tensors backward(Context* context, Tensors grads) {
    const auto& layer = recall<PatchEmbedding>(context);
    const auto* weight = trained(&layer.weight());
    const auto* bias = trained(&layer.bias());
    if (weight != nullptr || bias != nullptr)
      layer.wiring().take(
          LinearGrad{unfolded(context->get_saved_variables()[0], layer.patch()), grads[0].contiguous(), weight, bias});
    return {{}, {}, {}};
  }
};

}  // namespace

PatchEmbedding::PatchEmbedding(Parameters& parameters, const std::string& name, Options options)
    : options_(options),
      weight_(&parameters.add(name + ".weight", {options.width, options.channels, options.patch, options.patch},
                              options.init)),
      bias_(&parameters.add(name + ".bias", {options.width}, Init::constant(0))),
      wiring_(&parameters.wiring) {}

at::Tensor PatchEmbedding::operator()(const at::Tensor& images, const at::Tensor& start) const {
  if (plain_operators())
    return at::conv2d(images, weight_->value(), bias_->value(), options_.patch).flatten(2).transpose(1, 2);
  return PatchFunction::apply(start, images, this);
}

at::Tensor unpatchify(const at::Tensor& x, int64_t patch, int64_t channels, int64_t height, int64_t width) {
  const auto b = x.size(0), h = height / patch, w = width / patch;
  return x.reshape({b, h, w, patch, patch, channels}).permute({0, 5, 1, 3, 2, 4}).reshape({b, channels, height, width});
}

at::Tensor timestep_sinusoid(const at::Tensor& timesteps_B, int64_t dim, at::ScalarType type) {
  const auto wide = timesteps_B.options().dtype(at::kDouble);  // at t = 999 an angle in fp32 is off by 3e-5
  const auto half = dim / 2;
  const auto frequency = at::arange(half, wide).mul_(-std::log(10000.0) / static_cast<double>(half)).exp_();
  const auto angle = timesteps_B.to(at::kDouble).unsqueeze(1) * frequency;
  return at::cat({angle.cos(), angle.sin()}, 1).to(type);
}

}  // namespace shade::nn
