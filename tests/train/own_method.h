// A clipping method as another program writes it, and ways to write it wrong.
#pragma once

#include <ATen/ATen.h>

#include "shade/privacy/clip/layer_norms.h"
#include "shade/privacy/clip/method.h"

namespace shade::train {

struct OwnFaults {
  std::string forgets{};                         // a weight that it leaves out of the sum
  bool says_complete = true;                     // of every gradient
  double factor = 1;                             // of its coefficients
  std::optional<privacy::PrivacyEvent> event{};  // that its base is made for, in place of the step's
  std::string unmeasured{};                      // a weight whose norms it doesn't add
  bool weighs_early = false;                     // asks for coefficients before all norms are known
  bool writes_late = false;                      // after it said that a gradient is complete
};

// Bookkeeping in its plainest form: every layer is kept until all norms are known.
class OwnMethod final : public privacy::ClippingMethod {
 public:
  OwnMethod(const privacy::MethodSetup& setup, OwnFaults faults)
      : ClippingMethod({setup.parameters, setup.sink, faults.event.value_or(setup.event), setup.samples}),
        faults_(std::move(faults)) {}

  std::span<const privacy::MethodPass> passes() const override {
    static constexpr privacy::MethodPass kPasses[] = {{.gradients = false, .last = true}};
    return kPasses;
  }
  void take(nn::LayerGrad grad) override {
    const at::NoGradGuard no_graph;
    norms_.admit(grad);
    grad = privacy::keepable(std::move(grad));
    if (privacy::weights_of(grad).front()->name() != faults_.unmeasured) privacy::add_norms(grad, {}, norms_);
    if (faults_.weighs_early) coefficients(0);
    kept_.push_back(std::move(grad));
  }
  void finish() override {
    const at::NoGradGuard no_graph;
    norms_.require_complete();
    count();
    std::map<nn::WeightId, size_t> last;  // a tied weight has two entries
    for (size_t i = 0; i < kept_.size(); ++i)
      for (const auto* weight : privacy::weights_of(kept_[i])) last[weight->id()] = i;
    for (size_t i = 0; i < kept_.size(); ++i) {
      const auto weights = privacy::weights_of(kept_[i]);
      if (weights.front()->name() == faults_.forgets) continue;
      add_clipped(kept_[i], coefficients(0) * faults_.factor);
      for (const auto* weight : weights)
        if (faults_.says_complete && last[weight->id()] == i) sink_->complete(*weight);
      if (faults_.writes_late) sink_->buffer(*weights.front()).add_(1);
    }
    kept_.clear();
  }

 private:
  OwnFaults faults_;
  std::vector<nn::LayerGrad> kept_;
};

inline privacy::MakeMethod own_method(const OwnFaults& faults = {}) {
  return [faults](const privacy::MethodSetup& setup) { return std::make_unique<OwnMethod>(setup, faults); };
}

}  // namespace shade::train
