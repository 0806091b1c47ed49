#include "shade/plan/product_scratch.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "shade/nn/launches.h"
#include "shade/profile/memory.h"

namespace shade::plan {
namespace {

constexpr int64_t kWithoutOneDnn = 16 * 16 * 16;  // multiplications up to which libtorch doesn't call oneDNN
constexpr int64_t kLargest = int64_t{1} << 31;    // multiplications of a product that is tried

struct AllocatedByThread final : c10::MemoryReportingInfoBase {
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
    total += std::max<int64_t>(0, bytes);
  }
  bool memoryProfilingEnabled() const override { return true; }

  int64_t total = 0;
};

// Zeros of the shape, with its rows and columns in the same order in memory.
at::Tensor zeros_like(const at::Tensor& shape, int64_t rows, int64_t columns) {
  auto sizes = shape.sizes().vec();
  const bool transposed = shape.stride(-2) == 1 && shape.size(-1) > 1;
  sizes[sizes.size() - 2] = transposed ? columns : rows, sizes.back() = transposed ? rows : columns;
  const auto out = at::zeros(sizes, shape.options().device(at::kCPU));
  return transposed ? out.transpose(-2, -1) : out;
}

// Besides the result.
int64_t allocated_for(const at::Tensor& a, const at::Tensor& b) {
  const at::RecordFunctionGuard not_recorded(/*is_enabled=*/false);
  const profile::TensorMemory::Uncounted uncounted;
  const auto allocated = std::make_shared<AllocatedByThread>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, allocated);
  const auto product = at::matmul(a, b);
  return allocated->total - static_cast<int64_t>(product.nbytes());
}

}  // namespace

Bytes product_scratch(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != at::kBFloat16 || nn::few_launches(a)) return {};
  const auto numbers = a.size(-2) * b.size(-1);
  if (numbers * a.size(-1) <= kWithoutOneDnn) return {};
  static std::mutex mutex;
  static std::map<std::vector<int64_t>, Bytes> known;
  std::vector<int64_t> shape{at::get_num_threads()};
  for (const auto* each : {&a, &b}) {
    shape.insert(shape.end(), each->sizes().begin(), each->sizes().end());
    shape.push_back(each->stride(-2));
  }
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = known.try_emplace(shape);
  if (!is_new) return at->second;
  std::array tried{a.size(-2), a.size(-1), b.size(-1)};
  while (tried[0] * tried[1] * tried[2] > kLargest) *std::max_element(tried.begin(), tried.end()) /= 2;
  const auto x = zeros_like(a, tried[0], tried[1]), y = zeros_like(b, tried[1], tried[2]);
  auto bytes = allocated_for(x, y);
  // Without instructions for bf16, oneDNN multiplies into an fp32 copy of the whole result, one for each thread.
  const auto copies = std::min<int64_t>(a.dim() == 3 ? a.size(0) : 1, at::get_num_threads());
  if (bytes >= 4 * copies * tried[0] * tried[2]) bytes += 4 * copies * (numbers - tried[0] * tried[2]);
  return at->second = Bytes{bytes};
}

}  // namespace shade::plan
