// Where shards and optimizer state live: memory of the device, or, offloaded, a mapped file (CPU) or host memory
// (CUDA).
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "shade/base/memory_scope.h"
#include "shade/shard/config.h"

namespace shade::shard {

class Storage {
 public:
  virtual ~Storage() = default;
  virtual at::Tensor zeros(int64_t elements, at::ScalarType type, MemoryKind kind) = 0;
};

// Offloaded on a CPU: the file has no name, so it goes with the process however that ends; its pages are the system's
// to write out when memory is short. Throws, naming the folder, when there is no room.
std::unique_ptr<Storage> make_storage(const ShardConfig& config, at::Device device);

}  // namespace shade::shard
