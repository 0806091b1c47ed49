#include "shade/plan/checkpoint_interval.h"

#include <algorithm>
#include <cmath>

#include "shade/base/error.h"

namespace shade::plan {

Seconds FailureProfile::between(int devices_used) const {
  SHADE_REQUIRE(devices_used >= 1, "number of devices ", devices_used, " is out of range; expected at least 1");
  return Seconds(days * 86400 / interruptions * devices / devices_used);
}

const FailureProfile& published_failures() {
  static constexpr FailureProfile kProfile{.name = "llama3-405b",
                                           .source = "The Llama 3 Herd of Models: 419 unexpected and 47 planned",
                                           .interruptions = 466,
                                           .days = 54,
                                           .devices = 16384};
  return kProfile;
}

CheckpointPlan plan_checkpoints(Seconds between_failures, Seconds save, Seconds restart) {
  SHADE_REQUIRE(between_failures.count() > 0 && save.count() >= 0 && restart.count() >= 0,
                "time between failures, to save and to restart: expected above 0, 0 or more, and 0 or more; found ",
                between_failures.count(), ", ", save.count(), " and ", restart.count(), " s");
  const double mean = between_failures.count(), cost = save.count();
  // Daly's form; where saving takes longer than half the time between failures there is nothing better than that time.
  const double best = cost < mean / 2 ? std::max(std::sqrt(2 * cost * mean) - cost, 0.0) : mean;
  CheckpointPlan out{.interval = Seconds(best), .between_failures = between_failures};
  const double period = best + cost;
  // Shares of a wall clock on which failures come at a rate of 1 / mean: half a period is repeated for each, and a
  // save that is under way is lost with it.
  out.restarting = std::min(1.0, restart.count() / mean);
  out.repeated = std::min(1 - out.restarting, period / 2 / mean);
  const double left = 1 - out.restarting - out.repeated;
  out.saving = period > 0 ? left * cost / period : 0;
  out.goodput = left - out.saving;
  return out;
}

}  // namespace shade::plan
