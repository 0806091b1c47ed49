// The time of a recorded step on a device: its events replayed on a clock of their own.
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

}  // namespace shade::plan
