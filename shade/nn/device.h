// What a device asks of the host beyond calling kernels: which device a thread uses, copies that don't block, and when
// what was issued is done. On a CPU all of it is nothing. The same for every kind of accelerator.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <optional>

namespace shade::nn {

// Makes `device` the current one of this thread, for allocations and streams that name none. Once for every thread that
// touches a device: the one that makes a job, the one that reads ahead, the one that writes checkpoints.
void use_device(at::Device device);

// `tensor` itself if it is on `device`; otherwise a copy there that is ordered on this thread's stream. From the host
// it goes through pinned memory and doesn't block; to the host it blocks.
at::Tensor on_device(const at::Tensor& tensor, at::Device device);

// Uninitialised memory of the host, pinned where `device` is none: only then do copies between the two not block.
at::Tensor host_empty(int64_t elements, at::ScalarType type, at::Device device);

// All that this thread issued to a device until now.
class Issued {
 public:
  explicit Issued(at::Device device);
  void wait() const;  // blocks the host until it is done; from any thread

 private:
  std::optional<c10::Event> event_;  // none: a CPU has nothing under way
};

}  // namespace shade::nn
