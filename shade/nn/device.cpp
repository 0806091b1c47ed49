#include "shade/nn/device.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace shade::nn {
namespace {

bool computes_apart(at::Device device) { return !device.is_cpu() && !device.is_meta(); }

}  // namespace

void use_device(at::Device device) {
  if (computes_apart(device)) c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
}

at::Tensor on_device(const at::Tensor& tensor, at::Device device) {
  if (tensor.device() == device || !tensor.is_cpu() || !computes_apart(device)) return tensor.to(device);
  const auto pinned = tensor.is_pinned() ? tensor : tensor.pin_memory();
  return pinned.to(device, /*non_blocking=*/true);
}

at::Tensor host_empty(int64_t elements, at::ScalarType type, at::Device device) {
  return at::empty({elements}, at::TensorOptions(type).pinned_memory(computes_apart(device)));
}

Issued::Issued(at::Device device) {
  if (!computes_apart(device)) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  event_.emplace(device.type());
  event_->record(guard.getStream(device));
}

void Issued::wait() const {
  if (event_ && !event_->query()) event_->synchronize();
}

}  // namespace shade::nn
