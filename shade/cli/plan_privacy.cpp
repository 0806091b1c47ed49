#include "shade/cli/plan_privacy.h"

#include <algorithm>

#include "shade/base/strings.h"

namespace shade::cli {

void PlanPrivacy::add_to(CLI::App& app) {
  for (auto& field : config_.fields())
    app.add_option_function<std::string>(
           join(field.spellings(), ","), [&field](const std::string& word) { field.set(word); }, field.help())
        ->group("privacy within a budget")
        ->type_name("");
}

bool PlanPrivacy::asked() {
  const auto& fields = config_.fields();
  return std::any_of(fields.begin(), fields.end(), [](const Field& field) { return field.given(); });
}

plan::PrivacyPlan PlanPrivacy::plan(const Step& step) const { return plan::plan_privacy(question(step)); }

void PlanPrivacy::check(bool device_known, bool whole_run) const {
  // What the step will say stands in as 1.
  question({.length = 1,
            .flops_per_record = 1,
            .flops_per_gpu_second = device_known ? 1.0 : 0.0,
            .batch = whole_run ? 1 : 0,
            .steps = whole_run ? 1 : 0})
      .require_valid();
}

plan::PrivacyQuestion PlanPrivacy::question(const Step& step) const {
  const bool budget = options_.budget_gpu_hours > 0 || options_.budget_flops > 0 || options_.steps > 0;
  const bool open = !budget && options_.expected_batch == 0;
  return {.records = options_.records,
          .target_epsilon = options_.target_epsilon,
          .delta = options_.delta,
          .batch = open ? step.batch : options_.expected_batch,
          .steps = open ? step.steps : options_.steps,
          .budget_gpu_hours = options_.budget_gpu_hours,
          .budget_flops = options_.budget_flops,
          .length = step.length,
          .flops_per_record = step.flops_per_record,
          .flops_per_gpu_second = step.flops_per_gpu_second};
}

}  // namespace shade::cli
