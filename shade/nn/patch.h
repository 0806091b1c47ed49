// Images to patches and back: a convolution whose stride is its kernel is a linear layer on patches.
#pragma once

#include "shade/nn/parameters.h"

namespace shade::nn {

class PatchEmbedding {
 public:
  struct Options {
    int64_t channels = 3, patch = 8, width = 0;
    Init init = Init::normal(0.02);
  };
  PatchEmbedding(Parameters& parameters, const std::string& name, Options options);

  // [B, C, H, W] -> [B, N, width], patches in row order. `start` hangs it into its unit (see nn/unit.h).
  at::Tensor operator()(const at::Tensor& images, const at::Tensor& start) const;

  Weight& weight() const { return *weight_; }  // [width, C, patch, patch]
  Weight& bias() const { return *bias_; }
  int64_t patch() const { return options_.patch; }
  const Wiring& wiring() const { return *wiring_; }

 private:
  Options options_;
  Weight* weight_;
  Weight* bias_;
  const Wiring* wiring_;
};

// [B, N, patch * patch * C] (patch row, patch column, channel) -> [B, C, H, W]
at::Tensor unpatchify(const at::Tensor& x, int64_t patch, int64_t channels, int64_t height, int64_t width);

// cos and sin of t at frequencies 10000^(-i / (dim/2)): [B] -> [B, dim], computed in fp64.
at::Tensor timestep_sinusoid(const at::Tensor& timesteps_B, int64_t dim, at::ScalarType type);

}  // namespace shade::nn
