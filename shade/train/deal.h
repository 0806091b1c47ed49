// How a logical batch is dealt to ranks and cut into micro-batches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace shade::train {

// This rank's records, one span per micro-step. All ranks get the same number of micro-steps, at least one, without
// asking each other: who has fewer records gets empty ones, and runs them. The spans point into `records`. Whatever
// the ranks and the micro-batch, every record is somewhere exactly once, so the summed gradient is the same up to
// rounding.
std::vector<std::span<const int64_t>> deal(std::span<const int64_t> records, int ranks, int rank, int64_t micro_batch);

}  // namespace shade::train
