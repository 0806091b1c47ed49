// Normalisation over the last dim: RMSNorm, LayerNorm, and LayerNorm modulated per sample (adaLN).
#pragma once

#include "shade/nn/parameters.h"

namespace shade::nn {

// y = x / rms(x) * scale. Keeps x and one number per position; xhat is recomputed in backward.
class RmsNorm {
 public:
  RmsNorm(Parameters& parameters, const std::string& name, int64_t width, double eps);
  at::Tensor operator()(const at::Tensor& x) const;
  Weight& scale() const { return *scale_; }
  double eps() const { return eps_; }
  const Wiring& wiring() const { return *wiring_; }

 private:
  Weight* scale_;
  double eps_;
  const Wiring* wiring_;
};

class LayerNorm {
 public:
  LayerNorm(Parameters& parameters, const std::string& name, int64_t width, double eps);
  at::Tensor operator()(const at::Tensor& x) const;
  Weight& scale() const { return *scale_; }
  Weight& shift() const { return *shift_; }
  double eps() const { return eps_; }
  const Wiring& wiring() const { return *wiring_; }

 private:
  Weight* scale_;
  Weight* shift_;
  double eps_;
  const Wiring* wiring_;
};

// LN(x) * (1 + scale) + shift with scale, shift [B, D] computed from the condition: no weights of its own. One function
// keeps x and two numbers per position where separate operators would keep LN(x) too.
at::Tensor modulated_norm(const at::Tensor& x_BTD, const at::Tensor& shift_BD, const at::Tensor& scale_BD, double eps);

// x + gate * y with gate [B, D]: how an adaLN block adds its branch.
at::Tensor gated_add(const at::Tensor& x_BTD, const at::Tensor& gate_BD, const at::Tensor& y_BTD);

}  // namespace shade::nn
