// Images to patches and back: a convolution whose stride is its kernel is a linear layer on patches.
#pragma once

#include "shade/nn/parameters.h"

namespace shade::nn {

// Cuts images into square patches and maps each to a vector.
class PatchEmbedding {
 public:
  // Shape and initial values of the weights.
  struct Options {
    int64_t channels = 3;            // of the images
    int64_t patch = 8;               // pixels per side of a patch; an image's sides are multiples of it
    int64_t width = 0;               // elements of a patch's vector
    Init init = Init::normal(0.02);  // initial values of the weight; the bias begins at 0
  };
  // Declares `name`.weight and `name`.bias.
  PatchEmbedding(Parameters& parameters, const std::string& name, Options options);

  // [B, C, H, W] -> [B, N, width], patches in row order. `start` hangs it into its unit (see nn/unit.h).
  at::Tensor operator()(const at::Tensor& images, const at::Tensor& start) const;

  Weight& weight() const { return *weight_; }        // [width, C, patch, patch]
  Weight& bias() const { return *bias_; }            // [width]
  int64_t patch() const { return options_.patch; }   // pixels per side
  const Wiring& wiring() const { return *wiring_; }  // where backward reports gradients

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
