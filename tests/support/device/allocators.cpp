// The caching allocator of devices and the allocator of pinned memory.
#include <array>
#include <cstring>

#include "tests/support/device/arena.h"
#include "tests/support/device/blocks.h"
#include "tests/support/device/device.h"

namespace shade::test::device {
namespace {

constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
std::atomic<size_t> g_capacity{size_t{8} << 30};

class DeviceMemory final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const auto device = current_device();
    if (bytes == 0) return {nullptr, shadow(device)};
    const auto stream = number_of(current_stream(device));
    const auto host = host_clock();
    const std::lock_guard lock(blocks().mutex);
    release_held(host);
    const auto size = (bytes + kGranule - 1) / kGranule * kGranule;
    const auto begin = take(device, stream, size);
    auto& block = blocks().all[begin];
    block.requested = bytes;
    block.op = allocating_op();
    block.life = ++blocks().lives;
    block.live = true;
    auto& mine = stats_[device];
    mine.allocation[kAll].increase(1);
    mine.allocated_bytes[kAll].increase(block.size);
    mine.active_bytes[kAll].increase(block.size);
    mine.requested_bytes[kAll].increase(bytes);
    auto* address = reinterpret_cast<void*>(begin);
    return {address, address, deleter, shadow(device)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return deleter; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(bytes_at(to), bytes_at(from), bytes);
  }
  bool initialized() override { return true; }
  void recordStream(const c10::DataPtr& memory, c10::Stream stream) override { record_stream(memory, stream); }

  void emptyCache(c10::MempoolId_t) override {
    for (c10::DeviceIndex device = 0; device < device_count(); ++device) host_waits(launched_on(device));
    const auto host = host_clock();
    const std::lock_guard lock(blocks().mutex);
    release_held(host);
    for (auto& [key, pool] : pools_) drop(key.first, pool);
  }

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    const std::lock_guard lock(blocks().mutex);
    return stats_[device];
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    each(device, [](c10::CachingAllocator::Stat& stat) { stat.reset_accumulated(); });
  }
  void resetPeakStats(c10::DeviceIndex device) override {
    each(device, [](c10::CachingAllocator::Stat& stat) { stat.reset_peak(); });
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {  // free, total
    const std::lock_guard lock(blocks().mutex);
    return {g_capacity - std::min<size_t>(g_capacity, reserved(device)), g_capacity};
  }

 private:
  using Pool = std::multimap<size_t, uintptr_t>;  // free blocks by size

  static void deleter(void* address);

  size_t reserved(c10::DeviceIndex device) { return static_cast<size_t>(stats_[device].reserved_bytes[kAll].current); }

  // A free block of the stream's pool that isn't much larger, or a new one.
  uintptr_t take(c10::DeviceIndex device, size_t stream, size_t size) {
    auto& pool = pools_[{device, stream}];
    const auto found = pool.lower_bound(size);
    if (found != pool.end() && found->first <= size + size / 4) {
      const auto begin = found->second;
      pool.erase(found);
      return begin;
    }
    if (reserved(device) + size > g_capacity)
      for (auto& [key, other] : pools_)
        if (key.first == device) drop(device, other);
    TORCH_CHECK_WITH(OutOfMemoryError, reserved(device) + size <= g_capacity, "shadow:", int{device},
                     " is out of memory: tried to allocate ", size, " bytes, ", reserved(device), " of ",
                     g_capacity.load(), " are in use");
    const auto begin = reserve_addresses(size);
    std::memset(bytes_at(reinterpret_cast<void*>(begin)), kPoison, size);
    stats_[device].reserved_bytes[kAll].increase(size);
    auto& block = blocks().all[begin];
    block.size = size;
    block.device = shadow(device);
    block.stream = stream;
    return begin;
  }

  void free(uintptr_t begin) {
    const std::lock_guard lock(blocks().mutex);
    auto& block = blocks().all.at(begin);
    block.live = false;
    auto& mine = stats_[block.device.index()];
    mine.allocation[kAll].decrease(1);
    mine.allocated_bytes[kAll].decrease(block.size);
    mine.requested_bytes[kAll].decrease(block.requested);
    if (block.recorded.empty()) return give_back(begin, block);
    for (const auto& stream : block.recorded) block.held_until.join(launched_on(stream));
    held_.push_back(begin);
  }

  void give_back(uintptr_t begin, Block& block) {
    std::memset(bytes_at(reinterpret_cast<void*>(begin)), kPoison, block.size);
    stats_[block.device.index()].active_bytes[kAll].decrease(block.size);
    pools_[{block.device.index(), block.stream}].emplace(block.size, begin);
  }

  void release_held(const Clock& host) {
    std::erase_if(held_, [&](uintptr_t begin) {
      auto& block = blocks().all.at(begin);
      if (!host.covers(block.held_until)) return false;
      block.recorded.clear();
      block.held_until = {};
      give_back(begin, block);
      return true;
    });
  }

  void drop(c10::DeviceIndex device, Pool& pool) {
    for (const auto& [size, begin] : pool) {
      give_back_pages(begin, size);
      stats_[device].reserved_bytes[kAll].decrease(size);
      blocks().all.erase(begin);
    }
    pool.clear();
  }

  template <class Change>
  void each(c10::DeviceIndex device, const Change& change) {
    const std::lock_guard lock(blocks().mutex);
    auto& mine = stats_[device];
    for (auto* array :
         {&mine.allocation, &mine.allocated_bytes, &mine.reserved_bytes, &mine.active_bytes, &mine.requested_bytes})
      change((*array)[kAll]);
  }

  // Guarded by blocks().mutex.
  std::map<std::pair<c10::DeviceIndex, size_t>, Pool> pools_;
  std::vector<uintptr_t> held_;
  std::map<c10::DeviceIndex, c10::CachingDeviceAllocator::DeviceStats> stats_;
};

DeviceMemory& device_memory() {
  static auto& one = *new DeviceMemory;
  return one;
}
void DeviceMemory::deleter(void* address) { device_memory().free(reinterpret_cast<uintptr_t>(address)); }

class PinnedMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const auto size = (std::max<size_t>(bytes, 1) + kGranule - 1) / kGranule * kGranule;
    void* address = std::aligned_alloc(kGranule, size);
    SHADE_CHECK(address != nullptr, "no memory");
    const std::lock_guard lock(blocks().mutex);
    auto& block = blocks().all[reinterpret_cast<uintptr_t>(address)];
    block = {.size = size, .requested = bytes, .life = ++blocks().lives, .live = true};
    return {address, address, deleter, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return deleter; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }

 private:
  static void deleter(void* address) {
    const std::lock_guard lock(blocks().mutex);
    blocks().all.erase(reinterpret_cast<uintptr_t>(address));
    std::free(address);
  }
};

}  // namespace

c10::DeviceAllocator& device_allocator() { return device_memory(); }

c10::Allocator& pinned_allocator() {
  static auto& one = *new PinnedMemory;
  return one;
}

void set_capacity(size_t bytes) { g_capacity = bytes; }

}  // namespace shade::test::device
