#include "shade/train/run/evaluations.h"

#include <numeric>

#include "shade/checkpoint/agreement.h"
#include "shade/train/step/written_weights.h"

namespace shade::train {

bool Evaluations::owed(const RunFolder& folder, int64_t last) const {
  const auto step = job_->steps();
  if (step == 0 || !due(step, last)) return false;
  return !checkpoint::from_rank0(job_->groups().control, "looking for the last evaluation", [&] {
            return std::string(folder.was_evaluated(step) ? "" : "owed");
          }).empty();
}

std::optional<Evaluation> Evaluations::after(int64_t step, Report& report, const std::function<bool()>& stop) {
  const AveragedWeights averaged(job_->runtime(), job_->optimizer());
  const auto found = evaluate(job_->model(), job_->runtime(), records_.data, records_.split.evaluation_records(),
                              job_->shapes(), stop);
  if (found)
    report.evaluation(step, *found, "eval");
  else
    report.say(text("  the evaluation after step ", step, " is postponed until the run continues"));
  return found;
}

std::optional<Evaluation> Evaluations::test(Report& report) {
  if (records_.test == nullptr) return std::nullopt;
  const AveragedWeights averaged(job_->runtime(), job_->optimizer());
  std::vector<int64_t> all(static_cast<size_t>(records_.test->size()));
  std::iota(all.begin(), all.end(), 0);
  const auto found = evaluate(job_->model(), job_->runtime(), *records_.test, all, job_->shapes());
  report.evaluation(job_->steps(), *found, "test");
  return found;
}

}  // namespace shade::train
