// Images drawn from a denoiser by DDIM (Song et al. 2021, without added noise) with classifier-free guidance (Ho and
// Salimans 2022).
//
//   x from noise; at each timestep t, from 999 to 0:
//   eps    = without class + guidance (with class - without class)
//   image  = (x - sqrt(1 - a_t) eps) / sqrt(a_t), clipped to [-1, 1]; eps is what then remains of x
//   x      = sqrt(a) image + sqrt(1 - a) eps, a that of the next timestep, at the end 1
//
//   cost: a forward pass over all images for each timestep, two if guidance is neither 0 nor 1
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "shade/models/model.h"

namespace shade::serve {

struct ImageSampling {
  int64_t steps = 50;   // timesteps, evenly from 999 to 0; 1 to 1000
  double guidance = 1;  // 1: the class alone; more: closer to the class and less varied; 0: no class
};

// float [B, C, H, W] from -1 to 1. `classes_B`: int64, each below the model's number of classes. Throws UsageError if
// the model draws no images, or was never trained without a class and guidance isn't 1.
at::Tensor sample_images(models::Model& model, const at::Tensor& noise_BCHW, const at::Tensor& classes_B,
                         const ImageSampling& options, const std::function<void()>& after_step = {});

}  // namespace shade::serve
