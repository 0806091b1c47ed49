// The part of shade plan about privacy: batch, steps and noise for records, epsilon and a compute budget.
#pragma once

#include <CLI/App.hpp>

#include "shade/base/config.h"
#include "shade/plan/privacy_plan.h"

namespace shade::cli {

class PlanPrivacy {
 public:
  PlanPrivacy() { config_.add("privacy", options_); }
  PlanPrivacy(const PlanPrivacy&) = delete;
  PlanPrivacy& operator=(const PlanPrivacy&) = delete;

  void add_to(CLI::App& app);  // must outlive its parse
  bool asked();                // any of its options was given

  // What is known of a step: tokens per record, model FLOPs of a record, and those that a GPU makes per second (0:
  // not known). Batch and steps of a whole run (0: none is planned) are taken where no option says otherwise.
  struct Step {
    int64_t length = 0;
    double flops_per_record = 0, flops_per_gpu_second = 0;
    int64_t batch = 0, steps = 0;
  };
  plan::PrivacyPlan plan(const Step& step) const;  // throws UsageError
  // Before anything is planned: the errors of plan() that don't depend on the step. Throws UsageError.
  void check(bool device_known, bool whole_run) const;

 private:
  plan::PrivacyQuestion question(const Step& step) const;

  plan::PrivacyPlanConfig options_;
  Config config_;
};

}  // namespace shade::cli
