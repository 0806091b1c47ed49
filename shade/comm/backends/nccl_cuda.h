// NCCL's part of libshade_cuda.so (base/cuda_library.h).
#pragma once

#include "shade/comm/backends/backends.h"

namespace shade::comm {

struct NcclFunctions {
  static constexpr const char* kName = "shade_nccl_functions";
  decltype(make_nccl)* make;
  int (*version)();  // 23007 is 2.30.7
};

}  // namespace shade::comm
