// The noise's part of libshade_cuda.so (base/cuda_library.h).
#pragma once

#include "shade/privacy/noise_lane.h"

namespace shade::privacy {

struct NoiseFunctions {
  static constexpr const char* kName = "shade_noise_functions";
  // Adds noise to `sums`, element task.begin and those that follow, on the current device in the order of `stream`.
  // undecided[16 chunk + lane], counted from the first chunk, is what add_noise_of_lane() returns. Returns what CUDA
  // has against it, or null.
  const char* (*add)(const NoiseTask& task, double* sums, uint16_t* undecided, void* stream);
};

}  // namespace shade::privacy
