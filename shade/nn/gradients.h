// From what backward hands over to ordinary weight gradients.
#pragma once

#include <map>

#include "shade/nn/parameters.h"

namespace shade::nn {

// Where gradients are summed. A buffer has its weight's shape and any dtype.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  virtual at::Tensor buffer(const Weight& weight) = 0;
  virtual bool written(const Weight& weight) const = 0;  // false: the buffer's content is garbage, overwrite it
  virtual void mark_written(const Weight& weight) = 0;
  virtual void complete(const Weight&) {}  // nothing more will be added in this pass over the data
};

// Adds the gradient, summed over samples, to the sink; the first contribution is written, not added.
void add_gradient(const LayerGrad& grad, GradientSink& sink);

// Each sample's gradient, [B, the weight's shape], of each of the rule's weights. Throws UsageError if the rule gave
// others.
std::vector<at::Tensor> sample_gradients(const OwnGrad& grad);

// The default tap: every weight's gradient, whole, in one process.
class PlainGradients : public GradientTap, public GradientSink {
 public:
  explicit PlainGradients(std::optional<at::ScalarType> dtype = std::nullopt)
      : dtype_(dtype) {}  // default: the weight's

  void take(LayerGrad grad) override { add_gradient(grad, *this); }
  at::Tensor buffer(const Weight& weight) override;
  bool written(const Weight& weight) const override { return written_.contains(weight.id()); }
  void mark_written(const Weight& weight) override { written_[weight.id()] = true; }

  const at::Tensor& of(const Weight& weight) const;  // throws if backward never reached it
  bool has(const Weight& weight) const { return written(weight); }
  void clear();  // forget the values, keep the memory
  void free() {
    buffers_.clear();
    written_.clear();
  }

 private:
  std::optional<at::ScalarType> dtype_;
  std::map<WeightId, at::Tensor> buffers_;
  std::map<WeightId, bool> written_;
};

}  // namespace shade::nn
