#include "shade/profile/device.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <system_error>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/profile/memory.h"

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
  int (*name)(void* device, char* into, unsigned size) = nullptr;
  int (*driver)(char* into, unsigned size) = nullptr;
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
                       find(calls.utilisation, "nvmlDeviceGetUtilizationRates") &&
                       find(calls.name, "nvmlDeviceGetName") && find(calls.driver, "nvmlSystemGetDriverVersion");
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

// Null: none.
void* nvml_handle(c10::Device device) {
  if (!device.is_cuda() || nvml() == nullptr) return nullptr;
  const auto index = nvml_index(device.index());
  void* handle = nullptr;
  return index && nvml()->handle(*index, &handle) == 0 ? handle : nullptr;
}

// Null: it keeps no statistics.
c10::DeviceAllocator* allocator_of(c10::Device device) {
  return dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
}

}  // namespace

DeviceMemory device_memory(c10::Device device) {
  auto* const allocator = allocator_of(device);
  if (allocator == nullptr) return {};
  const auto stats = allocator->getDeviceStats(device.index());
  const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return {.allocated = {stats.allocated_bytes[all].current},
          .peak = {stats.allocated_bytes[all].peak},
          .reserved = {stats.reserved_bytes[all].current},
          .peak_reserved = {stats.reserved_bytes[all].peak}};
}

Bytes peak_memory(c10::Device device) { return device.is_cpu() ? TensorMemory::peak() : device_memory(device).peak; }

Bytes allocated_memory(c10::Device device) {
  return device.is_cpu() ? TensorMemory::current() : device_memory(device).allocated;
}

void reset_peak_memory(c10::Device device) {
  if (device.is_cpu()) return TensorMemory::reset_peak();
  if (auto* const allocator = allocator_of(device)) allocator->resetPeakStats(device.index());
}

Bytes available_memory(c10::Device device) {
  auto* const allocator = allocator_of(device);
  SHADE_REQUIRE(allocator != nullptr, "the memory of ", device.str(),
                " can't be measured; state the micro-batch (--micro-batch N)");
  const auto [free, all] = allocator->getMemoryInfo(device.index());
  const auto held = device_memory(device);
  return Bytes{static_cast<int64_t>(free)} + Bytes{held.reserved.count - held.allocated.count};
}

std::string device_name(c10::Device device) {
  void* const handle = nvml_handle(device);
  std::array<char, 128> name{}, driver{};
  if (handle == nullptr || nvml()->name(handle, name.data(), name.size()) != 0)
    return c10::DeviceTypeName(device.type(), /*lower_case=*/true);
  if (nvml()->driver(driver.data(), driver.size()) != 0) return name.data();
  return text(name.data(), ", driver ", driver.data());
}

int installed_gpus(const std::filesystem::path& root) {
  std::error_code none;
  int count = 0;
  for (std::filesystem::directory_iterator gpu(root / "proc/driver/nvidia/gpus", none), end; !none && gpu != end;
       gpu.increment(none))
    ++count;
  return count;
}

std::unique_ptr<DeviceMeter> DeviceMeter::open(c10::Device device) {
  void* const handle = nvml_handle(device);
  return handle == nullptr ? nullptr : std::unique_ptr<DeviceMeter>(new DeviceMeter(handle));
}

std::optional<double> DeviceMeter::utilisation() const {
  NvmlUse use{};
  if (nvml()->utilisation(handle_, &use) != 0) return std::nullopt;
  return use.gpu / 100.0;
}

}  // namespace shade::profile
