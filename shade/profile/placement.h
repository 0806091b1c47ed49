// Where a rank computes, in words: its processor, its device, and which GPUs are there and not used.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <vector>

namespace shade::profile {

struct Gpus {
  int installed = 0;   // the driver has
  int visible = 0;     // this process could use
  bool built = false;  // this build could use any
};
Gpus gpus_here();

// "cpu", "cuda:0 (NVIDIA H100 80GB HBM3, driver 570.86)". What follows, after "; ", are GPUs that no rank of this host
// uses, and what would use them. `local_ranks`: of this host.
std::string describe_device(c10::Device device, int local_ranks, const Gpus& gpus = gpus_here());

// The processor of this host, as the system describes it.

std::vector<std::string> cpu_lines();  // of the first one: "model name\t: ...", "flags\t: ..."; empty: unknown
std::string cpu_name();                // "unknown" if nothing says it

}  // namespace shade::profile
