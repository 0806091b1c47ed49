// Operators that allocate, resize or hand over memory: none of them is a kernel.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include "tests/support/device/device.h"
#include "tests/support/device/host_view.h"
#include "tests/support/device/memory.h"

namespace shade::test::device {
namespace {

constexpr c10::DispatchKeySet kKeys{c10::DispatchKey::PrivateUse1};

c10::DeviceGuard guarded(std::optional<c10::Device> device) {
  return c10::DeviceGuard(device && device->has_index() ? *device : shadow(current_device()));
}

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                 std::optional<c10::Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  const auto guard = guarded(device);
  return at::detail::empty_generic(sizes, &device_allocator(), kKeys, c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> type,
                         std::optional<at::Layout>, std::optional<c10::Device> device, std::optional<bool>) {
  const auto guard = guarded(device);
  return at::detail::empty_strided_generic(sizes, strides, &device_allocator(), kKeys, c10::dtype_or_default(type));
}

const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef sizes, std::optional<at::MemoryFormat>) {
  const c10::DeviceGuard guard(self.device());
  const auto needed =
      at::detail::computeStorageNbytesContiguous(sizes, self.itemsize(), static_cast<size_t>(self.storage_offset()));
  auto* storage = self.storage().unsafeGetStorageImpl();
  if (needed > storage->nbytes()) {
    auto memory = device_allocator().allocate(needed);
    if (storage->nbytes() > 0) device_allocator().copy_data(memory.mutable_get(), storage->data(), storage->nbytes());
    storage->set_data_ptr_noswap(std::move(memory));
    storage->set_nbytes(needed);
  }
  self.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return self;
}

at::Tensor& set_storage(at::Tensor& self, c10::Storage source, int64_t offset, at::IntArrayRef sizes,
                        at::IntArrayRef strides) {
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(source));
  impl->set_storage_offset(offset);
  impl->set_sizes_and_strides(sizes, strides);
  return self;
}

void record(at::Tensor& self, c10::Stream stream) { record_stream(self.storage().data_ptr(), stream); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("resize_", resize);
  library.impl("set_.source_Storage_storage_offset", set_storage);
  library.impl("record_stream", record);
}

}  // namespace
}  // namespace shade::test::device
