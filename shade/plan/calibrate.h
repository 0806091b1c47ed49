// This machine as a device profile: what the planner's rates are here, measured.
//
// All ranks measure at once, with the threads that they compute with: cores, caches and memory are shared as in a
// training step. Medians of repetitions, averaged over ranks.
#pragma once

#include "shade/base/config.h"
#include "shade/comm/world.h"
#include "shade/plan/device_profile.h"

namespace shade::plan {

struct CalibrateConfig {
  Seconds time{40};
  int64_t threads = 0;
  std::string name = "this-machine";

  void declare(Fields& fields);
};

// Collective: every rank calls it and gets the same profile. Rank 0 shows progress. A world of one rank has no
// collectives to measure, and its profile none.
DeviceProfile calibrate(comm::World& world, const CalibrateConfig& config);

}  // namespace shade::plan
