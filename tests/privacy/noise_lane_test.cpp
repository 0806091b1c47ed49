// The noise as GPUs draw it, on the host: lane by lane, and as nvcc's kernel. Both must be the host's noise, bit by
// bit.
#include "shade/privacy/noise_lane.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "shade/base/cuda_library.h"
#include "shade/base/error.h"
#include "shade/privacy/device_noise.h"
#include "shade/privacy/noise.h"

#if SHADE_TEST_KERNEL
// nvcc's, translated from PTX (ptx_to_cpp.py).
void kernel_fp32(uint32_t block, uint32_t thread, const void* const* parameters);
void kernel_fp64(uint32_t block, uint32_t thread, const void* const* parameters);
#endif

namespace shade::privacy {
namespace {

int64_t chunks_before(int64_t element) { return element / kNormalChunk; }
int64_t chunks_to(int64_t element) { return (element + kNormalChunk - 1) / kNormalChunk; }

// Runs `draw(task, sums)` over ranges, deviations and both types, and compares with Noise::add. `sums` is a Real*.
template <class Draw>
void expect_hosts_noise(int64_t most, const Draw& draw) {
  const Noise noise(seeded_key(5));
  const auto compare = [&]<class Real>(Real, at::ScalarType type, at::ScalarType bits) {
    for (const double deviation : {0x1p-40, 0.75, 3e20})
      for (const int64_t begin : {int64_t{0}, int64_t{1}, int64_t{1000}, int64_t{1} << 40})
        for (const int64_t size : {int64_t{1}, int64_t{127}, int64_t{256}, most}) {
          const auto expected = at::linspace(-1e3, 1e3, size, type) * deviation, found = expected.clone();
          noise.add(expected, deviation, 7, 3, begin);
          draw(noise.task(deviation, 7, 3, begin, size), found.template data_ptr<Real>());
          ASSERT_TRUE(found.view(bits).equal(expected.view(bits)))
              << at::toString(type) << ", deviation " << deviation << ", " << size << " elements from " << begin << ": "
              << found.ne(expected).sum().item<int64_t>() << " differ";
        }
  };
  compare(float{}, at::kFloat, at::kInt);
  compare(double{}, at::kDouble, at::kLong);
}

template <bool fused>
void draw_by_lanes(const NoiseTask& task, auto* sums) {
  for (int64_t chunk = chunks_before(task.begin); chunk < chunks_to(task.end); ++chunk)
    for (int lane = 0; lane < kLanes; ++lane) add_noise_of_lane<fused>(task, chunk, lane, sums);
}

TEST(NoiseLane, IsTheHostsNoise) {
  expect_hosts_noise(10'000, [](const NoiseTask& task, auto* sums) { draw_by_lanes<true>(task, sums); });
  expect_hosts_noise(10'000, [](const NoiseTask& task, auto* sums) { draw_by_lanes<false>(task, sums); });
}

#if SHADE_TEST_KERNEL
void run(const NoiseTask& task, auto* sums, auto kernel) {
  constexpr uint32_t kThreads = 128;  // noise_cuda.cu
  const int64_t first = chunks_before(task.begin), lanes = (chunks_to(task.end) - first) * kLanes;
  const void* const parameters[] = {&task, &first, &sums};
  for (uint32_t block = 0; block * kThreads < lanes; ++block)
    for (uint32_t thread = 0; thread < kThreads; ++thread) kernel(block, thread, parameters);
}

TEST(NoiseKernel, ItsInstructionsGiveTheHostsNoise) {
  expect_hosts_noise(300'000, [](const NoiseTask& task, auto* sums) {
    if constexpr (std::is_same_v<decltype(sums), float*>)
      run(task, sums, kernel_fp32);
    else
      run(task, sums, kernel_fp64);
  });
}
#endif

// On a machine with GPUs the check of every start is the test; tools/gpu_check runs it.
TEST(NoiseKernel, OfAGpuGivesTheHostsNoise) {
  if (visible_gpus() == 0) GTEST_SKIP() << "no GPU";
  ::setenv("SHADE_NOISE", "device", 1);
  EXPECT_TRUE(noise_on_device(at::Device(at::kCUDA, 0)));
  ::unsetenv("SHADE_NOISE");
}

TEST(NoiseKernel, IsUsedIfAskedForAndElseRefused) {
  const at::Device other(at::kPrivateUse1, 0);
  EXPECT_FALSE(noise_on_device(other)) << "never by itself";
  ::setenv("SHADE_NOISE", "device", 1);
  EXPECT_FALSE(noise_on_device(at::kCPU));
  EXPECT_THROW(noise_on_device(other), UsageError);
  ::setenv("SHADE_NOISE", "gpu", 1);
  EXPECT_THROW(noise_on_device(other), UsageError);
  ::unsetenv("SHADE_NOISE");
}

}  // namespace
}  // namespace shade::privacy
