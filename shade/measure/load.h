// What else the machine did while a row ran: figures of a busy machine are to be known as such.
#pragma once

#include "shade/base/json.h"
#include "shade/base/units.h"

namespace shade::measure {

struct MachineLoad {
  double others = 0;   // busy share of all cores that is not the row's, 0 to 1
  double average = 0;  // /proc/loadavg, one minute, at the end

  Json json() const;
};

// From construction to end(). Linux: /proc/stat; elsewhere all is 0.
class LoadMeter {
 public:
  LoadMeter();
  MachineLoad end(Seconds own) const;  // own: CPU time of the row's processes

 private:
  Clock::time_point begin_ = Clock::now();
  Seconds busy_;
};

}  // namespace shade::measure
