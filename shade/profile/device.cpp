#include "shade/profile/device.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "shade/base/strings.h"

namespace shade::profile {
namespace {

// The part of NVML's stable C interface that is used.
struct NvmlUse {
  unsigned gpu, memory;  // percent
};
struct Nvml {
  int (*init)() = nullptr;
  int (*handle)(unsigned index, void** device) = nullptr;
  int (*utilisation)(void* device, NvmlUse* use) = nullptr;
};

const Nvml* nvml() {
  static const Nvml* const loaded = []() -> const Nvml* {
    void* const library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return nullptr;
    static Nvml calls;
    const auto find = [&](auto& into, const char* name) {
      into = reinterpret_cast<std::remove_reference_t<decltype(into)>>(::dlsym(library, name));
      return into != nullptr;
    };
    const bool whole = find(calls.init, "nvmlInit_v2") && find(calls.handle, "nvmlDeviceGetHandleByIndex_v2") &&
                       find(calls.utilisation, "nvmlDeviceGetUtilizationRates");
    return whole && calls.init() == 0 ? &calls : nullptr;
  }();
  return loaded;
}

// CUDA numbers the devices it may see, NVML all of them.
std::optional<unsigned> nvml_index(c10::DeviceIndex index) {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return static_cast<unsigned>(index);
  const auto words = split(visible, ',');
  if (static_cast<size_t>(index) >= words.size()) return std::nullopt;
  const auto number = parse_integer(words[static_cast<size_t>(index)]);
  if (!number || *number < 0) return std::nullopt;  // a UUID
  return static_cast<unsigned>(*number);
}

}  // namespace

DeviceMemory device_memory(c10::Device device) {
  const auto stats = at::getDeviceAllocator(device.type())->getDeviceStats(device.index());
  const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return {.allocated = {stats.allocated_bytes[all].current},
          .peak = {stats.allocated_bytes[all].peak},
          .reserved = {stats.reserved_bytes[all].current},
          .peak_reserved = {stats.reserved_bytes[all].peak}};
}

std::unique_ptr<DeviceMeter> DeviceMeter::open(c10::Device device) {
  if (!device.is_cuda() || nvml() == nullptr) return nullptr;
  const auto index = nvml_index(device.index());
  void* handle = nullptr;
  if (!index || nvml()->handle(*index, &handle) != 0) return nullptr;
  return std::unique_ptr<DeviceMeter>(new DeviceMeter(handle));
}

std::optional<double> DeviceMeter::utilisation() const {
  NvmlUse use{};
  if (nvml()->utilisation(handle_, &use) != 0) return std::nullopt;
  return use.gpu / 100.0;
}

}  // namespace shade::profile
