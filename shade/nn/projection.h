// A linear layer that may carry a LoRA adapter: y = base(x) + (alpha / r) B(A(x)), base frozen.
#pragma once

#include <optional>

#include "shade/nn/linear.h"

namespace shade::nn {

struct LoraOptions {
  int64_t rank = 16;
  double alpha = 32;

  double scale() const { return alpha / static_cast<double>(rank); }
};

class Projection {
 public:
  Projection(Parameters& parameters, const std::string& name, Linear::Options options,
             const std::optional<LoraOptions>& lora = std::nullopt);

  at::Tensor operator()(const at::Tensor& x) const;

  bool adapted() const { return down_.has_value(); }
  const Linear& base() const { return base_; }

 private:
  Linear base_;
  std::optional<Linear> down_, up_;  // A: in -> rank, B: rank -> out, B begins at zero
  double scale_ = 1;
};

}  // namespace shade::nn
