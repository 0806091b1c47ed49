// y = x W^T + b, for any leading dims; the first one is the sample.
#pragma once

#include "shade/nn/parameters.h"

namespace shade::nn {

// A linear layer, with or without a bias.
class Linear {
 public:
  // Shape and initial values of the weights.
  struct Options {
    int64_t in = 0;                  // width of the input
    int64_t out = 0;                 // width of the output
    bool bias = false;               // whether there is a bias, which begins at 0
    Init init = Init::normal(0.02);  // initial values of W
  };
  // Declares `name`.weight and, if there is a bias, `name`.bias.
  Linear(Parameters& parameters, const std::string& name, Options options);

  // An input that needs no gradient (a sinusoid) is fine: the layer's backward then hangs on the anchor.
  at::Tensor operator()(const at::Tensor& x) const;

  Weight& weight() const { return *weight_; }        // [out, in]
  Weight* bias() const { return bias_; }             // [out]; null: there is none
  const Wiring& wiring() const { return *wiring_; }  // where backward reports gradients

 private:
  Weight* weight_;
  Weight* bias_ = nullptr;
  const Wiring* wiring_;
};

// The two products of a linear layer's backward: the input gradient here, the rest to the tap.
at::Tensor linear_input_grad(const at::Tensor& g, const Weight& weight);
// `a`: the layer's input, `g`: the gradient of its output. Does nothing if weight and bias are frozen.
void hand_over(const Linear& layer, const at::Tensor& a, const at::Tensor& g);

}  // namespace shade::nn
