// Every allocation of tensors on meta in its order: what a model of an allocator replays.
#pragma once

#include <vector>

#include "shade/base/units.h"

namespace shade::profile {

struct Allocation {
  const void* storage;  // the same when it is freed; used again by later ones
  Bytes size;           // 0: freed
};

// Process-wide, while it lives. TensorMemory::track_meta() must have been called.
class AllocationRecord {
 public:
  AllocationRecord();
  ~AllocationRecord();
  AllocationRecord(const AllocationRecord&) = delete;
  AllocationRecord& operator=(const AllocationRecord&) = delete;

  std::vector<Allocation> take();  // since the last call
};

}  // namespace shade::profile
