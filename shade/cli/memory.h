// Memory that ran out or will, in words a user can act on.
#pragma once

#include <optional>
#include <string>

#include "shade/base/units.h"
#include "shade/comm/world.h"
#include "shade/measure/bench.h"

namespace shade::cli {

// What failed, and what needs less; `wanted`: the size of the allocation, where it is known.
std::string out_of_memory_text(std::optional<Bytes> wanted = {});

// The same, if these are the words of libtorch's allocator; empty: another error.
std::optional<std::string> out_of_memory(const std::string& what);

// A warning before a run starts whose plan says that memory will not suffice.

struct MemoryQuestion {
  measure::Experiment experiment;
  int ranks = 1;
  Bytes limit;                         // for the tensors of a rank
  std::optional<Bytes> accelerator{};  // its memory; none: a CPU
};

// The peak of a rank, its largest part and the option that lowers it, if a dry run says that the peak exceeds the
// limit. Empty: it doesn't, the model is far too small for that, or a dry run can't say it within a few seconds. Throws
// nothing.
std::string memory_warning(const MemoryQuestion& question) noexcept;

// A recipe's step, of two micro-batches at most: peaks of later ones are the same. None: samples of several records,
// whose number differs. A micro-batch that is to be chosen counts as one sample.
std::optional<measure::Experiment> experiment_of(const train::Recipe& recipe, int ranks);

// Logged by rank 0. `stated`: a limit that the user gave; 0: what the host or the device has.
void warn_of_memory(const measure::Experiment& experiment, const comm::World& world, Bytes stated = {});

}  // namespace shade::cli
