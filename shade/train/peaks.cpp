#include "shade/train/peaks.h"

#include <ATen/ATen.h>

#include "shade/profile/peak_flops.h"

namespace shade::train {

Peaks peaks_of(const comm::Group& group, double stated_gflops, at::ScalarType type, at::Device device) {
  if (stated_gflops > 0) return {.stated = stated_gflops * 1e9 * group.size()};
  const auto sum = at::full({1}, profile::peak_gemm_flops(type, device), at::kDouble);
  group.all_reduce(sum, {.label = "peak flops"}).wait();
  return {.product = sum.item<double>()};
}

}  // namespace shade::train
