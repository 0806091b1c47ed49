// The time of a recorded step on a device: its events replayed on a simulated clock.
//
//   host           issues operators one by one, each costs `launch`; on a CPU it computes them itself
//   compute        an operator starts when it was issued and the one before it is done; roofline: the longer of its
//                  FLOPs at the reachable rate (less for small and narrow products) and its bytes at the memory's
//   communication  a collective starts when it was issued, what it reads was computed, and the one before it of its
//                  group and on its link is done; a wait holds up compute until it is over, and only that is exposed
// The order of gathers and reductions is the runtime's own: the record has it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shade/base/json.h"
#include "shade/plan/device_profile.h"
#include "shade/plan/step_record.h"

namespace shade::plan {

struct TimeOptions {
  // Standard deviation of the computing time over ranks, relative. Collectives wait for the slowest of all.
  double straggler_spread = 0;
};

struct EventTime {
  Seconds begin{0}, end{0};
};

struct TimePrediction {
  Seconds step{0};
  Seconds compute{0};                     // the device is busy
  Seconds communication{0};               // all collectives, one after the other
  Seconds exposed{0};                     // compute waits for a collective
  Seconds idle{0};                        // compute waits for the host to issue something
  std::map<std::string, Seconds> phases;  // by StepEvent::phase, with their waits; they add up to the step
  std::map<std::string, Seconds> work;    // products, attention, passes, copies, noise: add up to `compute`
  std::vector<EventTime> events;          // as in the record; a wait's is the time it held up

  Json json() const;  // without `events`
};

TimePrediction predict_time(const StepRecord& record, const DeviceProfile& device, const TimeOptions& options = {});

// Of one operator by itself, without its launch.
Seconds operator_time(const StepEvent& event, const DeviceProfile& device);

// How many standard deviations the largest of `count` normal numbers lies above their mean, expected (Blom).
double expected_largest(int count);

// How long a collective takes by itself, on a mesh of two levels: links inside a node, a network between nodes.
//
//   W ranks on n nodes, g of them on each; N bytes of the full buffer
//   busbw = inside, or min(inside, g x network) over several nodes: the rings of a node share its g network ports
//   gather, scatter    ring: (W - n) inside + (n - 1) network latencies + (W-1)/W N / busbw
//   all_reduce         twice that, or a tree: 2 ((g-1) inside + log2(n) network) latencies, 1.1 x the bytes
//   all_to_all         inside and between nodes at once, each at its own link's rate
//   broadcast          a chain in the node, a tree between nodes, pipelined: N / busbw
// Latencies and form are those by which NCCL itself chooses an algorithm. Measured times of a profile go before.
struct GroupShape {
  int ranks = 1, nodes = 1, per_node = 1;
};
// Of a group of `ranks` members, every `stride`-th rank of the world.
GroupShape group_shape(int ranks, int stride, int ranks_per_node);

Seconds collective_time(const CollectiveEvent& of, const DeviceProfile& device);

}  // namespace shade::plan
