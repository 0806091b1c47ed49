// The search of shade plan --advise: dry runs of edits of the runs that were stated, within a limit of memory.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "shade/plan/advice.h"
#include "shade/plan/planned.h"

namespace shade::plan {

// A run that candidates are edits of.
struct Stated {
  measure::Experiment experiment;
  Given given;
  int ranks = 1;
  std::set<std::string> kept;                               // fields that no candidate changes, "shard.shard"
  std::vector<std::pair<std::string, std::string>> varied;  // how it differs from the others, {"dp", "ghost"}
};

class Advisor {
 public:
  // any_method: the slowest and leanest clipping method is a last resort.
  Advisor(std::vector<Stated> stated, Bytes limit, bool any_method, const Target& target);

  // `progress` hears of each candidate before its dry run: how many families were begun, of how many.
  void search(const std::function<void(size_t begun, size_t all, const std::string& name)>& progress);

  const Advice& advice() const { return advice_; }
  const Candidate& recommended() const { return advice_.tried[advice_.recommended()].candidate; }
  std::optional<int64_t> largest_batch() const { return largest_batch_; }
  std::optional<int64_t> largest_length() const { return largest_length_; }
  const Crossovers& crossovers() const { return crossovers_; }

  // What a candidate's run has that others may not, in words of options without dashes; the batch is the last.
  std::vector<std::pair<std::string, std::string>> settings(const Candidate& candidate) const;
  std::string name_of(const Candidate& candidate) const;
  std::string reason_of(const Tried& tried) const;  // why it is not on the front

  Json json() const;
  std::string csv() const;

 private:
  train::Resolved<measure::Experiment> run_of(const Candidate& candidate) const;
  Planned planned(const Candidate& candidate, Planned::Events events = Planned::Events::drop) const;
  Estimate estimate(const Candidate& candidate) const;
  bool fits(const Candidate& candidate) const;
  std::vector<Edit> completed(size_t row) const;
  void find_largest();
  void find_crossovers();

  std::vector<Stated> stated_;
  SearchSpace space_;
  const Target* target_;
  Advice advice_;
  std::optional<int64_t> largest_batch_, largest_length_;
  Crossovers crossovers_;
};

}  // namespace shade::plan
