// What `shade bench` prints below its first table: where the time of a step goes, and the memory of each stage.
#pragma once

#include "shade/base/terminal.h"
#include "shade/measure/bench.h"

namespace shade::cli {

// The rows of the first table that are about memory.
void add_memory(Table& table, const measure::BenchResult& result);

void print_phases(const measure::BenchResult& result);

// A line of JSON per rank and stage, with the keys of PyTorch's FSDP example.
void print_stages(const measure::BenchResult& result);

}  // namespace shade::cli
