// ghost, flash: a backward for the norms, without weight gradients and reductions; a second one for the clipped sum.
//
//   FLOPs of a linear layer 8 B T P D + norms     traffic under zero3 4 P     extra memory: the graph lives longer
#pragma once

#include "shade/privacy/clip/layer_norms.h"
#include "shade/privacy/clip/method.h"

namespace shade::privacy {

class TwoPass : public ClippingMethod {
 public:
  using ClippingMethod::ClippingMethod;

  std::span<const MethodPass> passes() const override;
  at::Tensor objective(const at::Tensor& losses_B, size_t pass) override;
  void take(nn::LayerGrad grad) override;
  void finish() override {}

 private:
  bool first_ = true;
};

}  // namespace shade::privacy
