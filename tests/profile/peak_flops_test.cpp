#include "shade/profile/peak_flops.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "shade/base/units.h"
#include "shade/profile/device.h"
#include "shade/profile/memory.h"

namespace shade::profile {
namespace {

TEST(PeakGemm, NoProductOfTheSameKindIsMuchFaster) {
  at::set_num_threads(1);
  const double peak = peak_gemm_flops(at::kFloat, at::kCPU);
  EXPECT_GT(peak, 1e9);
  const auto a = at::ones({512, 512});
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const auto begin = Clock::now();
    (void)a.mm(a);
    best = std::max(best, 2.0 * 512 * 512 * 512 / Seconds(Clock::now() - begin).count());
  }
  EXPECT_LT(best, 2 * peak);
  EXPECT_GT(best, peak / 20);
}

TEST(PeakGemm, IsNoPartOfTheMemoryOfARun) {
  TensorMemory::track();
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    TensorMemory::reset_peak();
    const auto before = TensorMemory::peak();
    peak_gemm_flops(type, at::kCPU);
    EXPECT_EQ(TensorMemory::peak(), before);
    const auto counted = at::ones({1000});
    EXPECT_GE(TensorMemory::peak() - before, Bytes{4000}) << "what comes after it counts again";
  }
}

TEST(DeviceMeter, IsThereForGpusOnly) { EXPECT_EQ(DeviceMeter::open(at::kCPU), nullptr); }

}  // namespace
}  // namespace shade::profile
