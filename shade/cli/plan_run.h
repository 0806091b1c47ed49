// The part of shade plan about whole runs: days, failures, saves and price for a number of tokens.
#pragma once

#include <CLI/App.hpp>

#include "shade/cli/planned.h"
#include "shade/plan/whole_run.h"

namespace shade::cli {

class PlanRun {
 public:
  PlanRun() { config_.add("run", options_); }
  PlanRun(const PlanRun&) = delete;
  PlanRun& operator=(const PlanRun&) = delete;

  void add_to(CLI::App& app);       // must outlive its parse
  void read(const PlanTime& time);  // throws UsageError
  bool asked() const { return options_.tokens > 0; }

  plan::WholeRun plan(const Planned& row) const;  // of one with a time

 private:
  plan::WholeRunConfig options_;
  Config config_;
};

}  // namespace shade::cli
