#include "shade/nn/launches.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <atomic>
#include <map>
#include <mutex>

#include "shade/base/execution.h"

namespace shade::nn {
namespace {

std::atomic<int64_t> cpu_block = 0;  // of AsAccelerator; 0: a CPU is a CPU

Bytes memory_of(at::Device device) {
  static std::mutex mutex;
  static std::map<std::pair<at::DeviceType, at::DeviceIndex>, Bytes> known;
  const std::lock_guard lock(mutex);
  const auto [entry, unknown] = known.try_emplace({device.type(), device.index()});
  if (!unknown) return entry->second;
  auto* allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
  entry->second =
      allocator == nullptr ? GiB(64) : Bytes{static_cast<int64_t>(allocator->getMemoryInfo(device.index()).second)};
  return entry->second;
}

bool stands_for_another(const at::Tensor& x) { return x.is_cpu() || x.is_meta(); }

Bytes block_here() {
  const auto* here = Execution::here();
  return here != nullptr ? here->accelerator_block : Bytes{cpu_block};
}

}  // namespace

bool few_launches(const at::Tensor& x) { return !stands_for_another(x) || block_here().count > 0; }

Bytes largest_block(const at::Tensor& x) {
  return stands_for_another(x) ? block_here() : Bytes{memory_of(x.device()).count / 64};
}

AsAccelerator::AsAccelerator(Bytes block) : before_{cpu_block.exchange(block.count)} {}
AsAccelerator::~AsAccelerator() { cpu_block = before_.count; }

}  // namespace shade::nn
