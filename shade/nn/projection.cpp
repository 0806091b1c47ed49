#include "shade/nn/projection.h"

#include <ATen/ATen.h>

#include <cmath>

namespace shade::nn {

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
  auto y = base_(x);
  return adapted() ? at::add(y, (*up_)((*down_)(x)), scale_) : y;
}

}  // namespace shade::nn
