// The noise's part of libshade_cuda.so (base/cuda_library.h).
#pragma once

#include "shade/privacy/noise_lane.h"

namespace shade::privacy {

struct NoiseFunctions {
  static constexpr const char* kName = "shade_noise_functions";
  // Adds noise to `sums`, element task.begin and those that follow, on the current device in the order of `stream`.
  // Returns what CUDA has against it, or null.
  const char* (*add_fp32)(const NoiseTask& task, float* sums, void* stream);
  const char* (*add_fp64)(const NoiseTask& task, double* sums, void* stream);
};

}  // namespace shade::privacy
