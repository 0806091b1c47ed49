// When a run evaluates its model, and on what.
#pragma once

#include "shade/train/feed/held_out.h"
#include "shade/train/run/evaluate.h"
#include "shade/train/run/report.h"
#include "shade/train/step/job.h"

namespace shade::train {

// Of the weights' moving average, if there is one. All must outlive it; all collective.
class Evaluations {
 public:
  struct Records {
    const data::Dataset& data;
    const HeldOut& split;
    const data::Dataset* test;  // null: there is no test folder
  };
  Evaluations(Job& job, Records records, int64_t every) : job_(&job), records_(records), every_(every) {}

  bool due(int64_t step, int64_t last) const {
    return records_.split.evaluation() > 0 && (step == last || (every_ > 0 && step % every_ == 0));
  }
  // The one that was due after the step we continue from was ended by a request to stop.
  bool owed(const RunFolder& folder, int64_t last) const;

  // Of the held-out records; none: a request to stop ended it.
  std::optional<Evaluation> after(int64_t step, Report& report, const std::function<bool()>& stop);
  // Of the test folder.
  std::optional<Evaluation> test(Report& report);

 private:
  Job* job_;
  Records records_;
  int64_t every_;
};

}  // namespace shade::train
