// The largest micro-batch that fits.
#pragma once

#include <functional>

#include "shade/base/units.h"
#include "shade/comm/group.h"

namespace shade::train {

struct MicroBatchTrial {
  int64_t samples = 0;
  Bytes peak;  // of tensors, on the rank that needed most
};

// Tensors on `device` may take so many bytes.
struct MemoryLimit {
  Bytes most;
  at::Device device = at::kCPU;
};

struct MicroBatchChoice {
  int64_t samples = 1;
  std::vector<MicroBatchTrial> trials;
};

// Tries 1, 2, 4, ... samples up to `most` and keeps the largest whose peak stays within `limit`; a size that the last
// two predict not to fit is not tried. Collective, and the same answer for all ranks. `attempt` makes the gradients of
// so many samples and forgets them. The micro-batch never changes what is computed, only its rounding. Throws
// UsageError if not even one sample fits.
MicroBatchChoice choose_micro_batch(const comm::Group& group, int64_t most, const MemoryLimit& limit,
                                    const std::function<void(int64_t samples)>& attempt);

// The same search for the records of one user, up to the number that a user may have: what that needs is predicted from
// few records, and doesn't depend on what users have in the data. Throws UsageError if that doesn't fit.
void require_records_fit(const comm::Group& group, int64_t records, const MemoryLimit& limit,
                         const std::function<void(int64_t records)>& attempt);

// 80 % of what this host could still give, shared by its ranks; of another device 90 % of what it could hold, with what
// is there already: a rank has it for itself, and its allocator loses some to fragments.
Bytes default_memory_limit(at::Device device, int local_ranks);

}  // namespace shade::train
