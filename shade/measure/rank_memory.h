// The memory of one rank: at each stage of a run, at its peak, and each kind at its own highest moment.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <vector>

#include "shade/base/json.h"
#include "shade/catalog/parts.h"
#include "shade/comm/group.h"
#include "shade/profile/memory.h"

namespace shade::measure {

// What the allocator and the system say at one moment.
struct MemoryLine {
  std::string stage;
  profile::MemoryBreakdown tensors;
  Bytes peak;  // of tensors, so far
  // What the allocator holds of the system, at least the tensors; the most so far, on a CPU as seen at stages.
  Bytes reserved, peak_reserved;
  Bytes resident, peak_resident;  // of the process
};

struct RankMemory {
  std::vector<MemoryLine> stages;
  profile::MemoryBreakdown at_peak;
  profile::MemoryBreakdown most;  // each kind at its own highest moment
  Bytes average;                  // over the measured steps, weighted by time
  Bytes peak_resident;
};

// On a GPU the caching allocator knows the sum but not the kinds: all is `other`.
void add_stage(RankMemory& to, std::string stage, c10::Device device);
void add_peak(RankMemory& to, c10::Device device);  // at_peak, most, peak_resident

// Of every rank, by rank. Collective; every rank has the same stages.
std::vector<RankMemory> gathered(const comm::Group& group, const RankMemory& mine);
std::vector<MemoryLine> last_stage(const comm::Group& group, const RankMemory& mine);

catalog::Amounts by_kind(const profile::MemoryBreakdown& memory);  // {"parameters", MiB}, ...

// One stage of one rank with the keys of PyTorch's FSDP example, in GiB. They are called cuda_* there; `device` says
// whose memory it is.
Json stage_record(const MemoryLine& line, int rank, bool on_gpu);
// The same, and under our keys in MiB, with the kinds: an entry of `snapshots`.
Json snapshot(const MemoryLine& line, int rank, bool on_gpu);
Json rank_json(const RankMemory& memory, int rank);  // an entry of `memory_by_rank`

}  // namespace shade::measure
