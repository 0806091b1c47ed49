// A device tensor as libtorch's CPU kernels see it.
#pragma once

#include <ATen/ATen.h>

#include "tests/support/device/arena.h"

namespace shade::test::device {

// The same bytes, as a CPU tensor over the whole storage. Valid while the device tensor lives.
inline c10::Storage host_storage(const c10::Storage& storage) {
  void* bytes = storage.nbytes() == 0 ? nullptr : bytes_at(storage.data());
  return {c10::Storage::use_byte_size_t(), storage.nbytes(), c10::DataPtr(bytes, c10::kCPU), nullptr, false};
}

inline at::Tensor with_shape_of(const at::Tensor& like, at::Tensor tensor) {
  auto* impl = tensor.unsafeGetTensorImpl();
  impl->set_storage_offset(like.storage_offset());
  impl->set_sizes_and_strides(like.sizes(), like.strides());
  return tensor;
}

inline at::Tensor host_view(const at::Tensor& tensor, c10::Storage bytes) {
  return with_shape_of(tensor, at::detail::make_tensor<c10::TensorImpl>(
                                   std::move(bytes), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype()));
}
inline at::Tensor host_view(const at::Tensor& tensor) { return host_view(tensor, host_storage(tensor.storage())); }

// Another view of a device tensor's storage, as `host` is one of its host view's.
inline at::Tensor device_view(const at::Tensor& tensor, const at::Tensor& host) {
  return with_shape_of(host,
                       at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(tensor.storage()),
                                                                tensor.key_set(), host.dtype()));
}

}  // namespace shade::test::device
