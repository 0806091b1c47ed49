// An accelerator emulated on the CPU (libtorch's PrivateUse1, named "shadow"), for tests. It behaves as CUDA where code
// can go wrong, and finds the faults a GPU would hide behind its timing:
//
//   memory    the host can't touch it (PROT_NONE); freed memory is poisoned and goes back to the stream it was
//             allocated on, at once, as in CUDA's caching allocator; record_stream() holds it back       memory.h
//   order     streams, events and the host have vector clocks, every range of memory its last accesses: an access that
//             no event or wait orders after the last one throws, whatever the timing                     streams.h
//   kernels   run at once on the calling thread, by libtorch's CPU kernels; tensors of the CPU (but scalars) or of a
//             second device among the arguments throw                                                    kernels.cpp
//   copies    counted by direction and pinning. A non-blocking copy to pinned memory arrives when the host
//             synchronises; pinned memory that is changed under a copy to the device throws              host_copies.h
//   nccl      a c10d backend on a stream of its own, in place of shade/comm/backends/nccl.cpp            nccl.cpp
//
// A fault throws DeviceFault, which names the operator, the storage and the streams. The host's touch of device memory
// can't throw: it ends the process with such a message. Not emulated: time (kernels run when they are launched, though
// an event that is asked for the first time is not yet reached), graph capture, operators that CUDA lacks or that
// differ there in more than rounding.
//
// Linking shade::test_device is all: the device is there from the start, and comm::World takes it for its GPU.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>

#include "shade/base/error.h"
#include "tests/support/device/counters.h"

namespace shade::test::device {

class DeviceFault : public Error {
 public:
  using Error::Error;
};

c10::DeviceIndex device_count();  // SHADE_SHADOW_DEVICES in the environment; 4
c10::Device shadow(int index = 0);

// Non-blocking copies from or to memory that isn't pinned throw; CUDA makes them blocking without a word.
class RefusePageable {
 public:
  RefusePageable();
  ~RefusePageable();
  RefusePageable(const RefusePageable&) = delete;
  RefusePageable& operator=(const RefusePageable&) = delete;
};

// Memory of each device: beyond it allocations throw c10::OutOfMemoryError. 8 GiB unless said otherwise.
void set_capacity(size_t bytes);

}  // namespace shade::test::device
