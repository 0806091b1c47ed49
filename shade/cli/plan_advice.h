// The part of shade plan that advises: its options, and what was found, printed.
#pragma once

#include "shade/cli/planned.h"
#include "shade/plan/advisor.h"

namespace shade::cli {

class PlanAdvice {
 public:
  void add_to(CLI::App& app);       // must outlive its parse
  void read(const PlanTime& time);  // throws UsageError
  bool asked() const { return asked_; }

  // Tries what `words`, options of `shade bench`, leave open, and prints what was found. False: nothing fits.
  bool run(const Arguments& words, const PlanTime& time);
  Json json() const { return advisor_->json(); }
  std::string csv() const { return advisor_->csv(); }

 private:
  void print(const Arguments& words) const;
  void print_front() const;
  void print_best(Arguments words) const;
  void print_losers() const;
  std::vector<std::string> cells(const plan::Tried& tried) const;

  bool asked_ = false;
  std::string limit_word_;
  Bytes limit_;
  bool timed_ = false, reserves_ = false;
  std::optional<plan::Advisor> advisor_;
};

}  // namespace shade::cli
