// Denoising diffusion: how images are noised, and the loss of a learned variance.
//
//   x_t = sqrt(a_t) image + sqrt(1 - a_t) noise      a_t = (1 - beta_0) ... (1 - beta_t)
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "shade/nn/batch.h"

namespace shade::nn {

// The linear schedule of DDPM (Ho et al. 2020): beta from 1e-4 to 0.02.
struct DiffusionSchedule {
  explicit DiffusionSchedule(int64_t steps = 1000);
  std::vector<double> beta, kept;  // kept: a_t
};

// The variational bound of "Improved DDPM" (Nichol and Dhariwal 2021), one number per sample, in bits per element: the
// divergence of the model's step p(x_t-1 | x_t) from the true posterior q(x_t-1 | x_t, image) or, at t = 0, the
// negative log likelihood of the image's 256 levels. The log variance is `fraction`'s place, from -1 to 1, between the
// smallest and the largest that are possible. It trains the variance alone: the predicted noise gets no gradient.
// `batch` has the noisy image, its noise and its timestep in a schedule of 1000.
at::Tensor variational_losses(const at::Tensor& predicted_noise_BCHW, const at::Tensor& fraction_BCHW,
                              const Batch& batch);

}  // namespace shade::nn
