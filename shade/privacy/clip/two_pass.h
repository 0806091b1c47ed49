// ghost, flash: a backward for the norms, without weight gradients and reductions; a second one for the clipped sum.
//
//   FLOPs of a linear layer 8 B T P D + norms     traffic under zero3 4 P     extra memory: the graph lives longer
//
// The norms of the first bound the sum of the second only if both give the same gradients. A forward that is computed
// again (an own layer's, or under checkpointing) and draws random numbers gives others: that is refused, by a
// fingerprint of what each layer reports, to the bit. On accelerators only own layers' gradients are compared.
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
  void finish() override;

 private:
  // What a layer reported, in short.
  struct Report {
    std::vector<const nn::Weight*> weights;
    std::vector<int64_t> settings;  // of the report besides its tensors: row and last, or padding
    at::Tensor prints_B;
  };
  Report report_of(const nn::LayerGrad& grad) const;
  // The coefficients, if the second pass `agrees` [B]; throws UsageError if it doesn't for a sample that weighs
  // something. On accelerators, which would have to be waited for, such a sample gets 0.
  at::Tensor agreed(const nn::Weight& weight, const at::Tensor& agrees_B, const at::Tensor& c_B) const;

  bool first_ = true;
  std::vector<Report> reports_;  // of the first pass, in its order
  size_t next_ = 0;              // of them, in the second
};

}  // namespace shade::privacy
