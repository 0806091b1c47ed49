#include "shade/plan/plan.h"

#include "shade/base/error.h"
#include "shade/plan/planned.h"

namespace shade::plan {

PlannedStep plan_step(const PlanOptions& options) {
  SHADE_REQUIRE(options.ranks >= 1, "PlanOptions::ranks is ", options.ranks, "; expected 1 or more");
  measure::Experiment stated;
  Config config;
  stated.declare(config);
  for (const auto& [key, word] : options.options) config.set(key, word);
  Target target;
  if (!options.device_profile.empty()) target.device = device_profile(options.device_profile);
  Planned planned{.name = stated.model.model, .run = train::resolve(stated, config.stated(), options.ranks)};
  planned.make(target);
  if (!planned.refused.empty()) throw UsageError(planned.refused);
  const auto& record = planned.record;
  PlannedStep out{.peak = record.peak.total,
                  .between_steps = record.state.total,
                  .reserved = record.reserved,
                  .sent = record.sent,
                  .flops = 0,
                  .time = std::nullopt,
                  .json = planned.json().dump(2)};
  for (const auto& [name, sum] : record.phases) out.flops += sum.flops;
  if (planned.time) out.time = planned.time->time.step, out.fits = planned.time->fits;
  return out;
}

}  // namespace shade::plan
