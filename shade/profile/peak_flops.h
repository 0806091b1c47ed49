// What this machine can do at best: a matrix product, measured.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace shade::profile {

// FLOP/s of the fastest of many products of square matrices, with the threads and at the moment of the caller.
// Takes a third of a second: clocks and neighbours change faster than that. On CPUs its matrices are counted nowhere.
// 0: not known, of devices other than CPUs and CUDA's.
double peak_gemm_flops(c10::ScalarType type, c10::Device device);

}  // namespace shade::profile
