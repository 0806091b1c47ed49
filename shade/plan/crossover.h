// Which of several recorded steps is fastest, by the bandwidth of the links between their ranks.
#pragma once

#include <string>
#include <vector>

#include "shade/plan/cost.h"

namespace shade::plan {

struct Contender {
  std::string name;
  StepRecord record;
};

struct BandwidthRange {
  std::string fastest;
  double from = 0, to = 0;  // bytes per second of a device, in one direction
};

struct Crossovers {
  bool network = false;                // the link that was varied: between nodes; else inside of a node
  double present = 0;                  // what the profile has
  std::vector<BandwidthRange> ranges;  // ascending, without gaps; empty: the profile's collectives were measured
};

// From a 64th to 16 times the present bandwidth. Steps are compared by their time per sample.
Crossovers crossovers(const std::vector<Contender>& contenders, const DeviceProfile& device,
                      const TimeOptions& options = {});

}  // namespace shade::plan
