// What a device says of itself: its name, its allocator's statistics, NVML's utilisation.
#pragma once

#include <c10/core/Device.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "shade/base/units.h"

namespace shade::profile {

struct DeviceMemory {
  Bytes allocated, peak, reserved, peak_reserved;
};
// Of an accelerator; zeros if its allocator keeps no statistics.
DeviceMemory device_memory(c10::Device device);

// Of tensors on any device, since the last reset: of a CPU TensorMemory's, of an accelerator its allocator's.
Bytes peak_memory(c10::Device device);
Bytes allocated_memory(c10::Device device);  // now
void reset_peak_memory(c10::Device device);

// What tensors of this process could still take of an accelerator: what is free, and what its allocator holds unused.
// Throws UsageError if its allocator doesn't say.
Bytes available_memory(c10::Device device);

// "cpu"; of a GPU its maker's name for it ("NVIDIA H100 80GB HBM3", NVML) with the driver's version; otherwise the
// kind.
std::string device_name(c10::Device device);

// GPUs that the NVIDIA driver has, whether or not this build can use them. `root` is where proc is found.
int installed_gpus(const std::filesystem::path& root = "/");

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
