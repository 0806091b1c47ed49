// One training step as a list of what it does, in order, with no times: written by a dry run (plan/dry_run.h), turned
// into seconds by a cost model.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shade/base/json.h"
#include "shade/base/units.h"
#include "shade/catalog/parts.h"
#include "shade/comm/collective.h"
#include "shade/profile/memory.h"

namespace shade::plan {

// compute: an operator that a device would launch. copy: bytes moved and nothing computed: a change of type, place or
// layout. noise: Gaussian noise added to a sum. collective: issued here, and under way until something waits for it.
// wait: what comes next needs the output of a collective.
enum class EventKind { compute, copy, noise, collective, wait };
inline std::span<const Name<EventKind>> names_of(EventKind) {
  static constexpr Name<EventKind> kNames[] = {{"compute", EventKind::compute},
                                               {"copy", EventKind::copy},
                                               {"noise", EventKind::noise},
                                               {"collective", EventKind::collective},
                                               {"wait", EventKind::wait}};
  return kNames;
}

// A collective of `ranks` members, which are every `stride`-th rank of the world. Which of them share a host is the
// cost model's to know.
struct CollectiveEvent {
  comm::Collective kind = comm::Collective::barrier;
  std::string group;  // operations of one group queue behind each other; those of different groups don't
  std::string axis;   // of the mesh: "shard", "replicate", or "world"
  int ranks = 1;
  int stride = 1;
  Bytes payload;      // of the full buffer
  Bytes wire;         // sent by this rank
  bool host = false;  // of CPU tensors, whatever the device: small agreements between ranks
};

struct StepEvent {
  EventKind kind = EventKind::compute;
  SpanName phase = SpanName::other;   // the outermost span
  SpanName within = SpanName::other;  // the innermost one, if it is another
  std::string owner;                  // the unit, "layers.3"; empty: none
  std::string name;                   // of the operator ("mm") or the collective's label ("gather layers.3")
  c10::ScalarType dtype = c10::ScalarType::Float;  // of the largest input
  double flops = 0;  // multiplications and additions of matrix products, attention and convolutions; 0 for all others
  double bytes_read = 0, bytes_written = 0;  // of its tensors, each once
  // Of a matrix product, batch x rows x inner x columns; 0: none. A small or narrow product is slower than its FLOPs
  // say.
  int64_t batch = 0, rows = 0, inner = 0, columns = 0;
  CollectiveEvent collective;  // of a collective
  size_t waits_for = 0;        // of a wait: the index of the collective in StepRecord::events

  double bytes() const { return bytes_read + bytes_written; }
};

// What a phase does in all: the sum of its events.
struct PhaseSum {
  int64_t launches = 0;
  double flops = 0, bytes = 0;
};

struct TrafficTotal {
  comm::Collective kind = comm::Collective::barrier;
  std::string axis;
  int64_t count = 0;  // of operations
  Bytes wire;         // sent by this rank
};

// Tensor memory while an event was under way; the number of events: after the last one.
struct MemoryMoment {
  size_t event = 0;
  profile::MemoryBreakdown memory;
};

// One rank's step, as it is when the first one is over (state of the optimizer exists, buffers were made).
struct StepRecord {
  int rank = 0, ranks = 1;
  std::vector<StepEvent> events;

  profile::MemoryBreakdown peak;   // of tensors, since the beginning: by kind at the peak
  profile::MemoryBreakdown most;   // each kind at its own highest moment
  profile::MemoryBreakdown state;  // between steps
  Bytes pages;                     // that tensors of a CPU touch at most, with the heap's holes; 0: an accelerator
  Bytes reserved;                  // by the allocator of an accelerator (plan/caching_allocator.h), at most; 0: a CPU
  Bytes checkpoint;                // of all ranks: master weights and the optimizer's state
  catalog::PeakOwner owner;
  std::vector<MemoryMoment> course;        // of memory through the step; small changes are left out
  std::map<std::string, PhaseSum> phases;  // by StepEvent::phase
  std::vector<TrafficTotal> traffic;       // of the step, barriers left out
  Bytes sent;                              // by this rank in the step

  int64_t parameters = 0, samples = 0, tokens = 0;  // samples and tokens of all ranks in a step
  double model_flops = 0;                           // of this rank in a step (models/flops.h): what an MFU counts
};

void add_totals(StepRecord& record);  // phases, traffic and sent, from its events

std::string largest_part(const StepRecord& record);  // "12.3 GiB of activations (61 %)"
// What lowers the largest part of the peak for which something is known that `options` don't have on; empty: nothing.
std::string peak_remedy(const StepRecord& record, const Json& options);

// A planned step for result files, under the keys of `shade bench` where both have the figure.

// {"num_ranks", "peak_memory_mb", "breakdown"{}, "peak_owner"{}, "communication"{bytes, collectives[]}, "phases"{},
// ...}; events are left out.
Json to_json(const StepRecord& record);

}  // namespace shade::plan
