// What a run tells: a line for people, a line of metrics.jsonl for programs, scalars for TensorBoard. Only rank 0
// speaks.
//
//   step 120/1000  lr 0.001  epsilon 1.23 | not private: loss 3.214  clipped 5 of 64  memory 212 MiB  12300 tokens/s
//   (16200 with padding)  2026-01-31T12:00:00Z  3 min 20 s left
//
// In a private run the loss, evaluations, the size of the drawn batch, the counts of clipped samples, times, throughput
// and memory come straight from the records or follow from how many were drawn, without noise. They are for the
// operator of the training alone and stand under `not_private` in all three places.
#pragma once

#include <optional>

#include "shade/accounting/accountant.h"
#include "shade/base/terminal.h"
#include "shade/profile/events.h"
#include "shade/train/run/evaluate.h"
#include "shade/train/run/run_folder.h"
#include "shade/train/step/step.h"

namespace shade::train {

struct Throughput {
  double tokens_per_second = 0;
  std::optional<double> mfu, gemm_share;  // model FLOP/s (models/flops.h) over each of the peaks that are known
};

struct StepReport {
  int64_t step = 0;  // updates made
  StepRecord record;
  Seconds took{0};    // of the last step
  Seconds data{0};    // of that, waiting for records
  Seconds load{0};    // what loading them took, beside the step before
  Bytes memory;       // peak of tensors on this rank
  Throughput speed;   // of tokens without padding
  Throughput padded;  // of all positions that were computed
  std::optional<privacy::Spent> spent;
};

class Report {
 public:
  struct Options {
    bool speaks = true;  // this is rank 0
    bool quiet = false;  // metrics alone
    bool is_private = false;
    bool void_epsilon = false;  // the key is a seed: what is computed protects nothing
    std::string no_epsilon;     // why none is stated
    privacy::PrivacyUnit unit = privacy::PrivacyUnit::record;
    int64_t steps = 0, done = 0;
  };
  Report(RunFolder& folder, const Options& options);

  void say(const std::string& words);
  void advance();                                            // a step was made; moves the bar
  Seconds elapsed() const { return Clock::now() - begin_; }  // since this was made, shortly before the first step
  void step(const StepReport& report);
  // What was spent before this run's next step, where the ledger has more than the lines of metrics that were kept.
  void before(int64_t step, const std::optional<privacy::Spent>& spent);
  // `what` is "eval" for held-out records, "test" for those of the test folder.
  void evaluation(int64_t step, const Evaluation& found, const std::string& what);

 private:
  std::string tag(const std::string& name) const;  // in TensorBoard, of what is not private in a private run
  void add_spent(Json& line, const std::optional<privacy::Spent>& spent) const;
  void write(Json line, const Json& own);  // a line of metrics; `own` comes from the records

  RunFolder* folder_;
  Options options_;
  std::optional<Progress> bar_;
  std::optional<profile::EventFile> events_;
  Clock::time_point begin_ = Clock::now();
};

}  // namespace shade::train
