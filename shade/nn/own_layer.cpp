#include "shade/nn/own_layer.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "shade/base/error.h"
#include "shade/nn/autograd.h"

namespace shade::nn {
namespace {

Tensors values(const OwnLayer& layer) {
  Tensors out;
  for (const auto* weight : layer.weights()) out.push_back(weight->value().detach());
  return out;
}

// d forward / d wanted, times g. Inputs that the result doesn't depend on get zeros.
Tensors differentiate(const OwnLayer& layer, const Tensors& inputs, const Tensors& weights, const Tensors& wanted,
                      const at::Tensor& g) {
  const at::AutoGradMode on(true);
  const auto result = layer.options().forward(inputs, weights);
  if (!result.requires_grad()) {
    Tensors zeros;
    for (const auto& tensor : wanted) zeros.push_back(at::zeros_like(tensor));
    return zeros;
  }
  auto found = torch::autograd::grad({result}, wanted, {g}, false, false, /*allow_unused=*/true);
  for (size_t i = 0; i < found.size(); ++i)
    if (!found[i].defined()) found[i] = at::zeros_like(wanted[i]);
  return found;
}

// What one backward knows of the layer.
class Rule : public LayerRule {
 public:
  Rule(const OwnLayer& layer, Tensors inputs, at::Tensor g) : layer_(&layer), inputs_(std::move(inputs)), g_(g) {}

  std::vector<const Weight*> weights() const override {
    std::vector<const Weight*> out;
    for (const auto* weight : layer_->weights())
      if (weight->trainable()) out.push_back(weight);
    return out;
  }
  Tensors sample_gradients() const override {
    if (layer_->options().sample_gradients)
      return of_trained(layer_->options().sample_gradients(inputs_, g_, values(*layer_)));
    const auto trained = weights();
    std::vector<Tensors> by_weight(trained.size());
    for (int64_t b = 0; b < g_.size(0); ++b) {
      const auto found = gradients(b, 1);
      for (size_t i = 0; i < trained.size(); ++i) by_weight[i].push_back(found[i]);
    }
    Tensors out;
    for (size_t i = 0; i < trained.size(); ++i) {
      auto shape = trained[i]->shape();
      shape.insert(shape.begin(), 0);
      out.push_back(by_weight[i].empty() ? at::empty(shape, g_.options()) : at::stack(by_weight[i]));
    }
    return out;
  }
  Tensors sums() const override { return gradients(0, g_.size(0)); }

 private:
  // Summed over samples [begin, begin + size).
  Tensors gradients(int64_t begin, int64_t size) const {
    Tensors inputs, wanted;
    for (const auto& input : inputs_) inputs.push_back(input.narrow(0, begin, size));
    auto weights = values(*layer_);
    for (size_t i = 0; i < weights.size(); ++i)
      if (layer_->weights()[i]->trainable()) wanted.push_back(weights[i].set_requires_grad(true));
    return differentiate(*layer_, inputs, weights, wanted, g_.narrow(0, begin, size));
  }
  Tensors of_trained(Tensors all) const {
    SHADE_REQUIRE(all.size() == layer_->weights().size(), "sample_gradients of an own layer gave ", all.size(),
                  " tensors; expected one for each of its ", layer_->weights().size(), " weights, ",
                  layer_->weights().front()->name(), " being the first");
    Tensors out;
    for (size_t i = 0; i < all.size(); ++i)
      if (layer_->weights()[i]->trainable()) out.push_back(all[i]);
    return out;
  }

  const OwnLayer* layer_;
  Tensors inputs_;
  at::Tensor g_;
};

struct OwnFunction : torch::autograd::Function<OwnFunction> {
  static at::Tensor forward(Context* context, at::TensorList inputs, const OwnLayer* layer) {
    remember(context, layer);
    context->save_for_backward(inputs.vec());
    return layer->options().forward(inputs.vec(), values(*layer));  // grad mode is off inside of forward
  }
  static Tensors backward(Context* context, Tensors grads) {
    const auto& layer = recall<OwnLayer>(context);
    Tensors inputs, wanted, plain;
    for (const auto& saved : context->get_saved_variables()) {
      plain.push_back(saved.detach());
      inputs.push_back(saved.detach());
      if (saved.requires_grad()) wanted.push_back(inputs.back().set_requires_grad(true));
    }
    const auto found = differentiate(layer, inputs, values(layer), wanted, grads[0]);
    Tensors out;
    for (size_t i = 0, next = 0; i < inputs.size(); ++i)
      out.push_back(inputs[i].requires_grad() ? found[next++] : at::Tensor());
    const auto& weights = layer.weights();
    if (std::any_of(weights.begin(), weights.end(), [](const auto* weight) { return weight->trainable(); }))
      layer.wiring().take(OwnGrad{grads[0], std::make_shared<Rule>(layer, plain, grads[0])});
    out.emplace_back();
    return out;
  }
};

// With one input that reaches backward.
Tensors hung(Tensors inputs) {
  const auto needs_gradient = [](const at::Tensor& input) { return input.requires_grad(); };
  if (!at::GradMode::is_enabled() || std::any_of(inputs.begin(), inputs.end(), needs_gradient)) return inputs;
  const auto first = std::find_if(inputs.begin(), inputs.end(), [](const auto& in) { return in.is_floating_point(); });
  SHADE_REQUIRE(first != inputs.end(), "no input of an own layer can carry a gradient; pass one of floating point");
  *first = hang(*first, anchor(first->device()));
  return inputs;
}

}  // namespace

OwnLayer::OwnLayer(Parameters& parameters, const std::string& name, Options options)
    : options_(std::move(options)), wiring_(&parameters.wiring) {
  SHADE_REQUIRE(options_.forward && !options_.weights.empty(), "own layer ", name,
                " needs a forward and at least one weight");
  for (const auto& declared : options_.weights)
    weights_.push_back(&parameters.add(name + "." + declared.name, declared.shape, declared.init));
}

at::Tensor OwnLayer::operator()(const Tensors& inputs) const {
  for (const auto& input : inputs)
    SHADE_REQUIRE(input.dim() > 0 && input.size(0) == inputs.front().size(0), "an input of the layer of ",
                  weights_.front()->name(), " has shape ", input.sizes(), "; expected samples first, ",
                  inputs.front().size(0), " of them as in the first input");
  if (!plain_operators()) return OwnFunction::apply(at::TensorList(hung(inputs)), this);
  Tensors weights;
  for (const auto* weight : weights_) weights.push_back(weight->value());
  return options_.forward(inputs, weights);
}

}  // namespace shade::nn
