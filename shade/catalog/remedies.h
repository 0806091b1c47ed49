// What needs less memory or time: the only list of such advice. Plans, warnings, scans, reports and errors read it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shade/base/json.h"
#include "shade/base/memory_scope.h"
#include "shade/base/span.h"

namespace shade::catalog {

// Of a run, as options write them, by the last word of their keys: {"checkpointing", "block"}, and {"ranks", "8"}.
using Settings = std::map<std::string, std::string>;
Settings settings_of(const Json& options);  // of all sections

// The best first. What is on already is left out; a setting that isn't known counts as off.
std::vector<std::string> less_memory(MemoryKind kind, const Settings& run);  // "--checkpointing block"
// Each with its reason. `square`: the time grows with the square of the length.
std::vector<std::string> less_time(SpanName phase, bool square, const Settings& run);

// Where it isn't known what the memory is made of, or nothing has been allocated yet.
inline constexpr const char* kLessMemory =
    "a smaller batch (--micro-batch, --batch-size, --max-records-per-user), a shorter --seq-length, "
    "--checkpointing block, --lora-rank, --dtype bf16, or --shard zero3 on more ranks needs less";
inline constexpr const char* kLessState =
    "use more hosts, shard more (--shard zero3), offload (--offload), train adapters alone (--lora-rank) or choose a "
    "smaller model";
// For a micro-batch that can't be smaller.
inline constexpr const char* kLessPerSample = "shorten --seq-length, raise --memory-limit or set --checkpointing block";

}  // namespace shade::catalog
