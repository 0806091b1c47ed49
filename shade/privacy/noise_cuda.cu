// Noise on a GPU, in libshade_cuda.so: a thread for each lane of each chunk (noise_lane.h). Compiled without
// contraction
// (--fmad=false), with subnormal numbers and with divisions rounded once (nvcc's defaults): the bits are the host's.
#include <cuda_runtime.h>

#include "shade/privacy/noise_cuda.h"

namespace shade::privacy {
namespace {

constexpr int kThreads = 128;

__global__ void add_noise(NoiseTask task, int64_t first_chunk, int64_t lanes, double* sums, uint16_t* undecided) {
  const int64_t thread = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (thread >= lanes) return;
  undecided[thread] =
      add_noise_of_lane<true>(task, first_chunk + thread / kLanes, static_cast<int>(thread % kLanes), sums);
}

const char* add(const NoiseTask& task, double* sums, uint16_t* undecided, void* stream) {
  const int64_t first = task.begin / kNormalChunk, last = (task.end + kNormalChunk - 1) / kNormalChunk;
  const int64_t lanes = (last - first) * kLanes, blocks = (lanes + kThreads - 1) / kThreads;
  add_noise<<<static_cast<unsigned>(blocks), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(task, first, lanes, sums,
                                                                                               undecided);
  const auto status = cudaGetLastError();
  return status == cudaSuccess ? nullptr : cudaGetErrorString(status);
}

}  // namespace
}  // namespace shade::privacy

extern "C" __attribute__((visibility("default"))) const shade::privacy::NoiseFunctions* shade_noise_functions() {
  static constexpr shade::privacy::NoiseFunctions kFunctions{.add = shade::privacy::add};
  return &kFunctions;
}
