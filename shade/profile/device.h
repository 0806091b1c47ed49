// What a GPU says of itself: the caching allocator's statistics and NVML's utilisation.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <optional>

#include "shade/base/units.h"

namespace shade::profile {

struct DeviceMemory {
  Bytes allocated, peak, reserved, peak_reserved;
};
DeviceMemory device_memory(c10::Device device);  // of a GPU

// The driver's own counter of how busy a GPU was in the last sampling period. libnvidia-ml is looked for when asked:
// it comes with the driver, so no build can link it. Compiled here, not yet run on a GPU.
class DeviceMeter {
 public:
  static std::unique_ptr<DeviceMeter> open(c10::Device device);  // null: no GPU, or no NVML for it
  std::optional<double> utilisation() const;                     // 0..1

 private:
  explicit DeviceMeter(void* handle) : handle_(handle) {}
  void* handle_;
};

}  // namespace shade::profile
