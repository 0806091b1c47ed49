#include "shade/profile/placement.h"

#include <fstream>

#include "shade/base/strings.h"
#include "shade/comm/backends/backends.h"
#include "shade/profile/device.h"

namespace shade::profile {

namespace {

std::string count(int gpus) { return text(gpus, gpus == 1 ? " GPU" : " GPUs"); }

// Empty: all that can be used are.
std::string unused(c10::Device device, int local_ranks, const Gpus& gpus) {
  if (!device.is_cpu()) {
    if (gpus.visible <= local_ranks) return "";
    return text("; ", gpus.visible - local_ranks, " of ", count(gpus.visible),
                " that are visible are not used (--ranks ", gpus.visible, ")");
  }
  if (gpus.visible > 0) return text("; ", count(gpus.visible), " not used (--device cuda)");
  if (gpus.installed == 0) return "";
  return text("; ", count(gpus.installed), " not used: ",
              gpus.built ? "not visible to this process (CUDA_VISIBLE_DEVICES, the driver's version)"
                         : "this build has no CUDA (docs/gpu.md)");
}

}  // namespace

Gpus gpus_here() {
  const int installed = installed_gpus(), visible = comm::nccl_devices();
  // Without a GPU nothing of CUDA is loaded.
  return {.installed = installed, .visible = visible, .built = visible > 0 || (installed > 0 && comm::nccl_built())};
}

std::string describe_device(c10::Device device, int local_ranks, const Gpus& gpus) {
  const auto name = device.is_cpu() ? std::string() : device_name(device);
  return text(device.str(), name.empty() ? "" : text(" (", name, ")"), unused(device, local_ranks, gpus));
}

std::vector<std::string> cpu_lines() {
  std::ifstream in("/proc/cpuinfo");
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line) && !line.empty();) out.push_back(line);
  return out;
}

std::string cpu_name() {
  for (const auto& line : cpu_lines())
    if (const auto at = line.find(": "); line.starts_with("model name") && at != std::string::npos)
      return line.substr(at + 2);
  return "unknown";
}

}  // namespace shade::profile
