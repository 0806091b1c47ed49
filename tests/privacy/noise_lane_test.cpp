// The noise as GPUs draw it, on the host: lane by lane, and as nvcc's kernel. Both must be the host's noise, bit by
// bit.
#include "shade/privacy/noise_lane.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "shade/base/cuda_library.h"
#include "shade/base/error.h"
#include "shade/privacy/chacha20.h"
#include "shade/privacy/device_noise.h"
#include "shade/privacy/noise.h"

#if SHADE_TEST_KERNEL
// nvcc's, translated from PTX (ptx_to_cpp.py).
void kernel(uint32_t block, uint32_t thread, const void* const* parameters);
#endif

namespace shade::privacy {
namespace {

int64_t chunks_before(int64_t element) { return element / kNormalChunk; }
int64_t chunks_to(int64_t element) { return (element + kNormalChunk - 1) / kNormalChunk; }

using Undecided = std::vector<uint16_t>;

Undecided flags_of(const NoiseTask& task) {
  return Undecided(static_cast<size_t>((chunks_to(task.end) - chunks_before(task.begin)) * kLanes), 0xffff);
}

// Compares `draw(task, sums)`, which returns what is undecided, with Noise::add over ranges and deviations.
template <class Draw>
void expect_hosts_noise(int64_t most, const Draw& draw) {
  const Noise noise(seeded_key(5));
  for (const double deviation : {0x1p-40, 0.75, 3e20})
    for (const int64_t begin : {int64_t{0}, int64_t{1}, int64_t{1000}, int64_t{1} << 40})
      for (const int64_t size : {int64_t{1}, int64_t{127}, int64_t{256}, most}) {
        const auto task = noise.task(deviation, 7, 3, begin, size);
        const auto expected = at::linspace(-1e3, 1e3, size, at::kDouble) * deviation;
        const auto found = expected.clone();
        noise.add(expected, deviation, 7, 3, begin);
        const auto undecided = draw(task, found.data_ptr<double>());
        decide(task, at::tensor(std::vector<int64_t>(undecided.begin(), undecided.end())).to(at::kShort), found);
        ASSERT_TRUE(found.view(at::kLong).equal(expected.view(at::kLong)))
            << "deviation " << deviation << ", " << size << " elements from " << begin << ": "
            << found.ne(expected).sum().item<int64_t>() << " differ";
      }
}

template <bool fused>
Undecided draw_by_lanes(const NoiseTask& task, double* sums) {
  auto out = flags_of(task);
  auto flag = out.begin();
  for (int64_t chunk = chunks_before(task.begin); chunk < chunks_to(task.end); ++chunk)
    for (int lane = 0; lane < kLanes; ++lane) *flag++ = add_noise_of_lane<fused>(task, chunk, lane, sums);
  return out;
}

// What the lane of an element computes.
NormalPair pair_of(const NoiseTask& task, int64_t element) {
  const auto chunk = element / kNormalChunk, pair = element % (kNormalChunk / 2), w = pair / kLanes;
  uint32_t radius[16], direction[16];
  const auto block = static_cast<uint64_t>(2 * kLanes * chunk + pair % kLanes);
  chacha20_words(task.key, block, radius);
  chacha20_words(task.key, block + kLanes, direction);
  return normal_pair<true>(known_radius<true>(radius[w], radius[w + 8]), direction[w], direction[w + 8]);
}

#if SHADE_TEST_KERNEL
Undecided draw_by_kernel(const NoiseTask& task, double* sums) {
  constexpr uint32_t kThreads = 128;  // noise_cuda.cu
  auto out = flags_of(task);
  const int64_t first = chunks_before(task.begin), lanes = std::ssize(out);
  auto* const flags = out.data();
  const void* const parameters[] = {&task, &first, &lanes, &sums, &flags};
  for (uint32_t block = 0; block * kThreads < lanes; ++block)
    for (uint32_t thread = 0; thread < kThreads; ++thread) kernel(block, thread, parameters);
  return out;
}
#endif

TEST(NoiseLane, IsTheHostsNoise) {
  expect_hosts_noise(10'000, draw_by_lanes<true>);
  expect_hosts_noise(10'000, draw_by_lanes<false>);
}

// Sums next to the middle between two multiples are left to the host, on every path the same ones, and decided there.
TEST(NoiseLane, LeavesTheSameNumbers) {
  const Noise noise(seeded_key(5));
  const double deviation = 0.75;
  constexpr int64_t kSize = 5000, kBegin = 1000;
  const auto task = noise.task(deviation, 7, 3, kBegin, kSize);
  std::vector<double> sums(kSize), fused, split;
  for (int64_t at = 0; at < kSize; ++at) {
    const auto [along, across] = pair_of(task, kBegin + at);
    const bool second = (kBegin + at) % kNormalChunk >= kNormalChunk / 2;
    const auto number = second ? across : along;
    const double x = static_cast<double>(number.high) + static_cast<double>(number.low);
    const double scale = static_cast<double>(task.grid.scale.high) + static_cast<double>(task.grid.scale.low);
    sums[static_cast<size_t>(at)] =
        (0.5 - scale * x + static_cast<double>(at % 41 - 20) * 0x1p-22) * static_cast<double>(task.grid.spacing);
  }
  const auto left = draw_by_lanes<true>(task, (fused = sums).data());
  EXPECT_EQ(left, draw_by_lanes<false>(task, (split = sums).data()));
  EXPECT_EQ(fused, split);
  int64_t many = 0;
  for (const auto bits : left) many += std::popcount(bits);
  EXPECT_NEAR(static_cast<double>(many), kSize * 8 / 41., kSize * 1.1 / 41.) << "up to 2^-20 spacings from the middle";
  // The host's kernels leave the same ones.
  for (int64_t chunk = chunks_before(kBegin); chunk < chunks_to(kBegin + kSize); ++chunk) {
    alignas(64) uint32_t words[kNormalWords];
    for (const int half : {0, 1})
      chacha20_chunk(reinterpret_cast<const uint8_t*>(task.key), static_cast<uint64_t>(2 * chunk + half),
                     words + kChaChaWords * half);
    Normals drawn;
    normals(words, drawn);
    const auto start = kNormalChunk * chunk, from = std::max(start, kBegin),
               to = std::min(start + kNormalChunk, kBegin + kSize);
    std::vector<double> part(sums.begin() + (from - kBegin), sums.begin() + (to - kBegin));
    std::vector<uint8_t> undecided(part.size());
    add_on_grid(task.grid, drawn, from - start, to - from, part.data(), undecided.data());
    for (auto element = from; element < to; ++element) {
      const auto lane = left[static_cast<size_t>((chunk - chunks_before(kBegin)) * kLanes + element % kLanes)];
      EXPECT_EQ(undecided[static_cast<size_t>(element - from)], lane >> (element % kNormalChunk / kLanes) & 1)
          << element;
    }
  }
  auto host = at::tensor(sums, at::kDouble), here = at::tensor(fused, at::kDouble);
  noise.add(host, deviation, 7, 3, kBegin);
  decide(task, at::tensor(std::vector<int64_t>(left.begin(), left.end())).to(at::kShort), here);
  EXPECT_TRUE(here.equal(host));
  const auto* const found = host.const_data_ptr<double>();
  for (int64_t at = 0; at < kSize; ++at)  // to the side of the middle that they are on
    if (at % 41 != 20) EXPECT_EQ(found[at], at % 41 < 20 ? 0 : static_cast<double>(task.grid.spacing)) << at;
#if SHADE_TEST_KERNEL
  std::vector<double> kernels = sums;
  EXPECT_EQ(left, draw_by_kernel(task, kernels.data()));
  EXPECT_EQ(kernels, fused);
#endif
}

#if SHADE_TEST_KERNEL
TEST(NoiseKernel, ItsInstructionsGiveTheHostsNoise) { expect_hosts_noise(300'000, draw_by_kernel); }
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
