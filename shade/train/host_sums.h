// Where noise is added: a rank's clipped sums in memory of the host.
//
// Gradients on the CPU are used as they are. Those of a device are copied to pinned memory, noised there and copied
// back: added on the device by libtorch in fp32, the noise would leave its grid (privacy/grid.h). If the device adds it
// itself (privacy/device_noise.h), they stay there.
#pragma once

#include <span>
#include <vector>

#include "shade/nn/device.h"
#include "shade/shard/sharded_unit.h"

namespace shade::train {

class HostSums {
 public:
  // Begins the copies and doesn't block. The shards' tensors are kept.
  HostSums(std::span<const shard::LocalShard> shards, at::Device device);

  // The sums of each shard. Blocks until the copies are done: noise that a copy overwrites would be none.
  std::span<const at::Tensor> values();
  void give_back();  // to the device; doesn't block

 private:
  std::vector<at::Tensor> sums_, values_;
  nn::Issued copies_;
};

}  // namespace shade::train
