// A whole run from the time of one of its steps: days, device-hours, price, failures and saves for a number of tokens.
//
//   steps      tokens / tokens of a step, rounded up; training = steps x time of a step
//   save       bytes of a checkpoint / bandwidth of the storage; the run is taken to stand still for all of it
//   failures   at the rate of a published fleet, or one that is given (plan/whole_run.h)
//   elapsed    training / goodput
// Steps that are repeated after a failure get noise of their own on accelerators, and count again
// (docs/checkpoints.md).
#pragma once

#include <string>
#include <vector>

#include "shade/base/config.h"
#include "shade/base/json.h"
#include "shade/base/units.h"

namespace shade::plan {

// How often to save a run that fails now and then, and what share of the time is left for training.
//
// Young and Daly: with time S to save and M between failures, the best interval between saves is about
// sqrt(2 S M) - S. Time is lost by saving (S per interval), by repeating half an interval per failure, and by starting
// again (R per failure). Failures are taken as independent: M = M_one / devices.

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

// What a user says about it; time and size of a step are the plan's.
struct WholeRunConfig {
  double tokens = 0;  // 0: nothing is asked
  double price_per_hour = 0;
  Seconds device_mtbf{0};
  double write_bandwidth = 0;
  Seconds restart_time{300};

  void declare(Fields& fields);
};

// Storage of the published run whose failures are the default: bytes per second of all its devices.
inline constexpr double kPublishedWriteRate = 2e12;

struct WholeRunQuestion {
  double tokens = 0;
  int devices = 1;
  Seconds step{0};
  int64_t tokens_per_step = 0;
  Bytes checkpoint;             // of all ranks
  double price_per_hour = 0;    // of a device; 0: not stated
  Seconds device_mtbf{0};       // of one device; 0: as published_failures()
  double bytes_per_second = 0;  // written by all ranks; 0: the published rate, by the number of devices
  Seconds restart{300};

  void require_valid() const;
};

struct WholeRun {
  WholeRunQuestion question;
  int64_t steps = 0;
  Seconds training{0};  // without failures and saves
  Seconds save{0};      // of one checkpoint
  double bytes_per_second = 0;
  CheckpointPlan checkpoints;
  int64_t save_every = 1;  // steps
  Seconds elapsed{0};
  double failures = 0;        // expected
  double repeated_steps = 0;  // expected
  double device_hours = 0;
  double price = 0;  // 0: not stated

  Json json() const;
};

WholeRun plan_whole_run(const WholeRunQuestion& question);

// One line for each, and what was assumed.
std::string table_of(const std::vector<std::pair<std::string, WholeRun>>& runs);

}  // namespace shade::plan
