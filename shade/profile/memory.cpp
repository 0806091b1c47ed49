#include "shade/profile/memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <array>
#include <atomic>
#include <fstream>
#include <mutex>
#include <string>
#include <unordered_map>

#include "shade/base/error.h"

namespace shade::profile {
namespace {

std::atomic<int64_t> now{0}, highest{0};

void add(int64_t bytes) {
  const auto total = now.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  auto seen = highest.load(std::memory_order_relaxed);
  while (total > seen && !highest.compare_exchange_weak(seen, total, std::memory_order_relaxed)) {
  }
}

// Sizes of live allocations by address. Some kernels take raw memory from the allocator and hand back the bare address,
// so the size can't travel with the pointer.
class Sizes {
 public:
  void put(const void* address, int64_t bytes) {
    auto& part = part_of(address);
    const std::lock_guard lock(part.mutex);
    part.sizes[address] = bytes;
  }
  int64_t take(const void* address) {
    auto& part = part_of(address);
    const std::lock_guard lock(part.mutex);
    const auto found = part.sizes.find(address);
    if (found == part.sizes.end()) return 0;
    const auto bytes = found->second;
    part.sizes.erase(found);
    return bytes;
  }

 private:
  struct Part {
    std::mutex mutex;
    std::unordered_map<const void*, int64_t> sizes;
  };
  Part& part_of(const void* address) { return parts_[reinterpret_cast<uintptr_t>(address) / 64 % parts_.size()]; }
  std::array<Part, 16> parts_;
};

Sizes& sizes() {
  static auto* const instance = new Sizes;  // outlives every tensor, static ones included
  return *instance;
}

c10::DeleterFnPtr inner_deleter = nullptr;

void release(void* address) {
  if (address == nullptr) return;
  now.fetch_sub(sizes().take(address), std::memory_order_relaxed);
  inner_deleter(address);
}

class Counting final : public c10::Allocator {
 public:
  explicit Counting(c10::Allocator* inner) : inner_(inner) {
    inner_deleter = inner->raw_deleter();
    SHADE_CHECK(inner_deleter != nullptr, "libtorch's CPU allocator can't be wrapped: its context is not the address");
  }

  c10::DataPtr allocate(size_t bytes) override {
    auto data = inner_->allocate(bytes);
    const auto device = data.device();
    auto* address = data.release_context();
    if (address == nullptr) return {nullptr, device};
    sizes().put(address, static_cast<int64_t>(bytes));
    add(static_cast<int64_t>(bytes));
    return {address, address, &release, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { inner_->copy_data(to, from, bytes); }

 private:
  c10::Allocator* inner_;
};

}  // namespace

void TensorMemory::track() {
  static std::once_flag once;
  std::call_once(once, [] {
    static Counting counting(c10::GetCPUAllocator());
    c10::SetCPUAllocator(&counting, /*priority=*/100);
  });
}

Bytes TensorMemory::current() { return {now.load()}; }
Bytes TensorMemory::peak() { return {highest.load()}; }
void TensorMemory::reset_peak() { highest.store(now.load()); }

ProcessMemory process_memory() {
  ProcessMemory memory;
  std::ifstream in("/proc/self/status");
  SHADE_CHECK(in, "cannot read /proc/self/status");
  std::string key;
  int64_t kib = 0;
  while (in >> key) {
    if (key == "VmRSS:" && in >> kib) memory.resident = KiB(kib);
    if (key == "VmHWM:" && in >> kib) memory.peak_resident = KiB(kib);
    if (key == "RssAnon:" && in >> kib) memory.anonymous = KiB(kib);
    in.ignore(1 << 16, '\n');
  }
  return memory;
}

}  // namespace shade::profile
