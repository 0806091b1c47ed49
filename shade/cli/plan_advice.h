// The part of shade plan that advises: its options, and what was found, printed.
#pragma once

#include "shade/cli/planned.h"
#include "shade/plan/advisor.h"

namespace shade::cli {

// `--dp any` stands for every clipping method, but for the slowest and leanest, which is a last resort. Privacy itself
// is never the advice's to choose: without --dp the runs are not private.
Arguments with_methods(Arguments words);

class PlanAdvice {
 public:
  void add_to(CLI::App& app);       // must outlive its parse
  void read(const PlanTime& time);  // throws UsageError
  bool asked() const { return asked_; }

  // Tries what the rows leave open, and prints what was found. False: nothing fits. any_method: every clipping method
  // may be tried, the slowest and leanest as a last resort.
  bool run(const std::vector<StatedRow>& rows, bool any_method, const PlanTime& time);
  Json json() const { return advisor_->json(); }
  std::string csv() const { return advisor_->csv(); }

 private:
  void print(const std::vector<StatedRow>& rows) const;
  void print_front() const;
  void print_best(const std::vector<StatedRow>& rows) const;
  void print_losers() const;
  std::vector<std::string> cells(const plan::Tried& tried) const;

  bool asked_ = false;
  std::string limit_word_;
  Bytes limit_;
  bool timed_ = false, reserves_ = false;
  std::optional<plan::Advisor> advisor_;
};

}  // namespace shade::cli
