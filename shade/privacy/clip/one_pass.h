// materialize, bookkeeping, flash_bookkeeping, streaming, auto: one backward, in which every layer leaves what its
// clipped sum will need, and a second phase without weights, in which reductions overlap with the next product.
//
//   FLOPs of a linear layer 6 B T P D + norms     traffic under zero3 3 P     extra memory: what is kept
//   (clip/choice.h)
//
// With a threshold per group a group's second phase begins as soon as its last norm is known, inside of backward.
#pragma once

#include <variant>

#include "shade/privacy/clip/choice.h"
#include "shade/privacy/clip/method.h"

namespace shade::privacy {

class OnePass : public ClippingMethod {
 public:
  OnePass(const MethodRow& row, const MethodSetup& setup, const ClipOptions& options);

  std::span<const MethodPass> passes() const override;
  void begin(int64_t samples, int64_t blank = 0) override;
  void take(nn::LayerGrad grad) override;
  void finish() override;

 private:
  using Kept = std::variant<nn::LayerGrad, SampleGradients>;

  void keep(const nn::LinearGrad& grad, size_t group);
  void keep(const nn::ScaleShiftGrad& grad, size_t group);
  void keep(const nn::OwnGrad& grad, size_t group);
  void keep(Kept kept, size_t group);
  void settle(size_t group);

  Chooser chooser_;
  std::vector<std::vector<Kept>> kept_;  // by group, in backward order
};

}  // namespace shade::privacy
