// Where a rank computes, in words, and which GPUs are there and not used.
#pragma once

#include <c10/core/Device.h>

#include <string>

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

}  // namespace shade::profile
