// What `shade bench` prints below its first table: where the time of a step goes, and the memory of each stage.
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

// A line of JSON per rank and stage, with the keys of PyTorch's FSDP example.
void print_stages(const measure::BenchResult& result);

}  // namespace shade::cli
