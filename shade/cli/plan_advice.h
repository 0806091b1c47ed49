// The part of shade plan that searches: which settings are fastest within a memory limit, and why others are not.
#pragma once

#include "shade/cli/planned.h"
#include "shade/plan/advice.h"

namespace shade::cli {

class PlanAdvice {
 public:
  void add_to(CLI::App& app);       // must outlive its parse
  void read(const PlanTime& time);  // throws UsageError
  bool asked() const { return asked_; }

  // Tries what `words`, options of `shade bench`, leave open, and prints what was found. False: nothing fits.
  bool run(const Arguments& words, const PlanTime& time);
  Json json() const;
  std::string csv() const;

 private:
  Planned plan(const plan::Candidate& candidate, Planned::Events events = Planned::Events::drop) const;
  plan::Estimate estimate(const plan::Candidate& candidate) const;
  bool fits(const plan::Candidate& candidate) const;
  void find_largest(const plan::Candidate& best);
  void find_crossovers();
  void print() const;
  void print_front() const;
  void print_best() const;
  void print_losers() const;
  plan::ReasonWords reason_words() const;
  std::vector<std::string> cells(const plan::Tried& tried) const;

  bool asked_ = false;
  std::string limit_word_;
  Bytes limit_;
  Arguments words_;
  const PlanTime* time_ = nullptr;
  plan::Advice advice_;
  std::optional<int64_t> largest_batch_, largest_length_;
  plan::Crossovers crossovers_;
};

}  // namespace shade::cli
