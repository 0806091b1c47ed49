// y = x W^T + b, for any leading dims; the first one is the sample.
#pragma once

#include "shade/nn/parameters.h"

namespace shade::nn {

class Linear {
 public:
  struct Options {
    int64_t in = 0, out = 0;
    bool bias = false;
    Init init = Init::normal(0.02);
  };
  Linear(Parameters& parameters, const std::string& name, Options options);

  // An input that needs no gradient (a sinusoid) is fine: the layer's backward then hangs on the anchor.
  at::Tensor operator()(const at::Tensor& x) const;

  Weight& weight() const { return *weight_; }
  Weight* bias() const { return bias_; }
  const Wiring& wiring() const { return *wiring_; }

 private:
  Weight* weight_;
  Weight* bias_ = nullptr;
  const Wiring* wiring_;
};

// The two products of a linear layer's backward: the input gradient here, the rest to the tap.
at::Tensor linear_input_grad(const at::Tensor& g, const Weight& weight);
void hand_over(const Linear& layer, const at::Tensor& a, const at::Tensor& g);

}  // namespace shade::nn
