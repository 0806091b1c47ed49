// Normalisation over the last dim: RMSNorm, LayerNorm, and LayerNorm modulated per sample (adaLN).
#pragma once

#include "shade/nn/parameters.h"

namespace shade::nn {

// y = x / rms(x) * scale. Keeps x and one number per position; xhat is recomputed in backward.
class RmsNorm {
 public:
  // Declares the scale as `name`.weight, which begins at 1.
  RmsNorm(Parameters& parameters, const std::string& name, int64_t width, double eps);
  at::Tensor operator()(const at::Tensor& x) const;  // [B, ..., width] -> the same shape
  Weight& scale() const { return *scale_; }          // [width]
  double eps() const { return eps_; }                // added to the mean square of a position
  const Wiring& wiring() const { return *wiring_; }  // where backward reports gradients

 private:
  Weight* scale_;
  double eps_;
  const Wiring* wiring_;
};

// y = (x - mean(x)) / deviation(x) * scale + shift. Keeps x and two numbers per position.
class LayerNorm {
 public:
  // Declares the scale as `name`.weight, which begins at 1, and the shift as `name`.bias, which begins at 0.
  LayerNorm(Parameters& parameters, const std::string& name, int64_t width, double eps);
  at::Tensor operator()(const at::Tensor& x) const;  // [B, ..., width] -> the same shape
  Weight& scale() const { return *scale_; }          // [width]
  Weight& shift() const { return *shift_; }          // [width]
  double eps() const { return eps_; }                // added to the variance of a position
  const Wiring& wiring() const { return *wiring_; }  // where backward reports gradients

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
