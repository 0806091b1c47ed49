// How often to save a run that fails now and then, and what share of the time is left for training.
//
// Young and Daly: with time S to save and M between failures, the best interval between saves is about
// sqrt(2 S M) - S. Time is lost by saving (S per interval), by repeating half an interval per failure, and by starting
// again (R per failure). Failures are taken as independent: M = M_one / devices.
#pragma once

#include "shade/base/units.h"

namespace shade::plan {

// How often a fleet fails, from a published record.
struct FailureProfile {
  const char* name;
  const char* source;
  double interruptions, days;
  int devices;

  Seconds between(int devices_used) const;  // failures of a job on so many devices, on average
};
const FailureProfile& published_failures();

struct CheckpointPlan {
  Seconds interval{0};  // of training between two saves
  Seconds between_failures{0};
  double goodput = 0;                               // share of the time that is training which counts
  double saving = 0, repeated = 0, restarting = 0;  // shares of the time lost
};

// `save`: the run stands still for so long at each save. `restart`: from a failure to the first step again.
CheckpointPlan plan_checkpoints(Seconds between_failures, Seconds save, Seconds restart);

}  // namespace shade::plan
