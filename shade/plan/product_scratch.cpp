#include "shade/plan/product_scratch.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "shade/nn/launches.h"
#include "shade/profile/memory.h"

namespace shade::plan {
namespace {

constexpr int64_t kWithoutOneDnn = 16 * 16 * 16;  // multiplications up to which libtorch doesn't call oneDNN

struct AllocatedByThread final : c10::MemoryReportingInfoBase {
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override {
    total += std::max<int64_t>(0, bytes);
  }
  bool memoryProfilingEnabled() const override { return true; }

  int64_t total = 0;
};

// oneDNN multiplies bf16 on a CPU without instructions for it into an fp32 copy of the whole result, with a few bytes
// for its alignment. Returns those few bytes, or nothing where its kernels need no such copy.
std::optional<int64_t> wide_copy_padding() {
  const at::RecordFunctionGuard not_recorded(/*is_enabled=*/false);
  const profile::TensorMemory::Uncounted uncounted;
  const auto a = at::zeros({512, 16}, at::kBFloat16), b = at::zeros({16, 512}, at::kBFloat16);
  const auto allocated = std::make_shared<AllocatedByThread>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, allocated);
  const auto product = at::mm(a, b);
  const auto padding = allocated->total - static_cast<int64_t>(product.nbytes()) - 4 * product.numel();
  return padding >= 0 && padding <= 4096 ? std::optional(padding) : std::nullopt;
}

}  // namespace

Bytes product_scratch(const at::Tensor& product, int64_t inner) {
  if (product.scalar_type() != at::kBFloat16 || nn::few_launches(product)) return {};
  const auto batch = product.dim() == 3 ? product.size(0) : 1;
  const auto numbers = product.size(-2) * product.size(-1);
  if (numbers * inner <= kWithoutOneDnn) return {};
  static const auto padding = wide_copy_padding();
  if (!padding) return {};
  return Bytes{4 * numbers * std::min<int64_t>(batch, at::get_num_threads()) + *padding};  // a copy per thread
}

}  // namespace shade::plan
