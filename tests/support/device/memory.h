// Memory of the emulated devices, and pinned memory of the host, with the last accesses to each part of it.
//
// Allocation follows CUDA's caching allocator: a freed block goes to the pool of the stream it was allocated on, at
// once, and is given away again on that stream although other streams may still use it, unless record_stream() named
// them: then it stays back until the host has synchronised with them (the latest a GPU could do it). Blocks aren't
// split. A block keeps its accesses when it is given away again: that is how a free that was too early is seen.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <string>

#include "tests/support/device/streams.h"

namespace shade::test::device {

constexpr int kPoison = 0xFF;  // NaN in every floating type, -1 in integers

struct Extent {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};
Extent extent(const at::Tensor& tensor);  // addresses from its first to its last element

// "storage #7 (64 bytes of shadow:0, allocated on stream 0 of shadow:0 by aten::add.out)"
std::string describe(const at::Tensor& tensor);
std::string describe_address(uintptr_t address);

// This command reads (writes) the tensor's memory. Throws DeviceFault if that is not ordered after the last write
// (the last accesses), or if the memory was freed. Memory that isn't ours (pageable) is not followed.
void access(const Turn& turn, const std::string& op, const at::Tensor& tensor, bool write);

c10::DeviceAllocator& device_allocator();
c10::Allocator& pinned_allocator();
bool is_pinned(const void* address);
c10::DeviceIndex device_of(const void* device_address);
void record_stream(const c10::DataPtr& memory, const c10::Stream& stream);

// What this thread allocates meanwhile is named after the operator.
class Allocating {
 public:
  explicit Allocating(const std::string& op);
  ~Allocating();
  Allocating(const Allocating&) = delete;
  Allocating& operator=(const Allocating&) = delete;

 private:
  const std::string* outer_;
};

}  // namespace shade::test::device
