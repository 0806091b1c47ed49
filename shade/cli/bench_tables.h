// What `shade bench` prints beside its first table: the memory of each stage, and where the time of a step goes.
#pragma once

#include <limits>

#include "shade/base/terminal.h"
#include "shade/measure/bench.h"

namespace shade::cli {

// The rows of the first table that are about memory.
void add_memory(Table& table, const measure::BenchResult& result);

// With the norms of so many layers, the slowest first.
inline constexpr size_t kSlowestLayers = 3, kEveryLayer = std::numeric_limits<size_t>::max();
void print_phases(const measure::BenchResult& result, size_t layers);

// A line of JSON per rank, with the keys of PyTorch's FSDP example; a heading before the first stage.
void print_stage(const std::vector<measure::MemoryLine>& by_rank, bool on_gpu, bool first);

}  // namespace shade::cli
