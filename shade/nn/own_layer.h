// A custom layer, from its forward alone:
//
//   nn::OwnLayer power(parameters, "power", {.weights = {{"exponent", {width}, nn::Init::constant(1)}},
//                                            .forward = [](const nn::Tensors& in, const nn::Tensors& w) {
//                                              return in[0].pow(w[0]);
//                                            }});
//   const auto y = power({x});
//
// Cost: backward runs the forward once more for the inputs' gradients. A private step asks for each sample's gradient
// of the weights, [B, weight]: without `sample_gradients` that is a forward and a backward of each sample alone. A
// method of two passes makes them twice and keeps none; all others keep them, whatever they keep of other layers.
#pragma once

#include <functional>

#include "shade/nn/function.h"

namespace shade::nn {

// A layer whose forward is a function of the caller.
class OwnLayer {
 public:
  // A weight of the layer.
  struct Declared {
    std::string name;            // e.g. exponent, of the weight power.exponent
    std::vector<int64_t> shape;  // of the tensor that forward gets
    Init init;                   // initial values
  };
  // Of differentiable operators; samples come first in every input and in the result, and none may depend on another.
  using Forward = std::function<at::Tensor(const Tensors& inputs, const Tensors& weights)>;
  // [B, the weight's shape] of every weight, from the gradient [B, ...] of the result.
  using SampleGradients = std::function<Tensors(const Tensors& inputs, const at::Tensor& g_B, const Tensors& weights)>;
  // Weights and functions of the layer.
  struct Options {
    std::vector<Declared> weights;       // at least one; functions get them in this order
    Forward forward;                     // required; backward calls it too
    SampleGradients sample_gradients{};  // none: found by autograd, sample by sample
  };
  OwnLayer(Parameters& parameters, const std::string& name, Options options);  // weights are name.exponent, ...

  // If no input needs a gradient, the first floating one is hung on the anchor. Throws UsageError if there is none.
  at::Tensor operator()(const Tensors& inputs) const;

  const std::vector<Weight*>& weights() const { return weights_; }  // in the order of Options::weights
  const Options& options() const { return options_; }               // as passed to the constructor
  const Wiring& wiring() const { return *wiring_; }                 // where backward reports gradients

 private:
  Options options_;
  std::vector<Weight*> weights_;
  const Wiring* wiring_;
};

}  // namespace shade::nn
