#include "shade/profile/peak_flops.h"

#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>

#include <algorithm>

#include "shade/base/units.h"
#include "shade/profile/memory.h"

namespace shade::profile {

double peak_gemm_flops(c10::ScalarType type, c10::Device device) {
  if (!device.is_cpu() && !device.is_cuda()) return 0;
  const int64_t side = device.is_cpu() ? 768 : 8192;  // large enough to be limited by arithmetic
  const TensorMemory::Uncounted probe;
  const auto options = at::TensorOptions(type).device(device);
  const auto a = at::ones({side, side}, options), b = at::ones({side, side}, options);
  auto out = at::empty({side, side}, options);
  const auto finish = [&] {
    if (!device.is_cpu()) at::accelerator::synchronizeDevice(device.index());
  };
  double best = 1e300;
  Seconds spent{0};
  for (int i = 0; i < 3 || spent.count() < 0.3; ++i) {
    finish();
    const auto begin = Clock::now();
    at::mm_out(out, a, b);
    finish();
    const Seconds took = Clock::now() - begin;
    spent += took;
    if (i > 0) best = std::min(best, took.count());  // the first one makes threads and plans
  }
  return 2.0 * static_cast<double>(side * side * side) / best;
}

}  // namespace shade::profile
