// Training from a recipe to the last step.
//
// The flow: draw a batch (a function of key and step) -> this rank's micro-batches, loaded while the step before runs
// -> Step -> report, evaluate, save. A private run ends before its budget would be exceeded; an empty batch still makes
// its step, with noise.
//
// A run directory that has a checkpoint is continued. A repeated step is the same step: batch and noise are functions
// of (incarnation key, step). If anything differs that could change its bits (world, strategy, recipe, machine;
// train/budget/identity.h), it would be another step with the same noise, whose difference tells about the records;
// then a new incarnation begins, with other batches and other noise, and what was spent stays spent. Steps that the
// ledger doesn't have always come from random bytes of this process (train/budget/history.h).
#pragma once

#include <c10/core/ScalarType.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "shade/base/stop_signals.h"
#include "shade/comm/group.h"
#include "shade/train/budget/spending.h"
#include "shade/train/run/checkpoints.h"
#include "shade/train/run/evaluate.h"
#include "shade/train/run/evaluations.h"
#include "shade/train/run/exports.h"
#include "shade/train/step/step.h"

namespace shade::train {

// What a run's speed is compared with.

// FLOP/s of all ranks together; 0: not known. `stated` is what the maker of the hardware promises: nothing that can be
// read of a CPU says how many products its units start per cycle, so it is given (--peak-gflops) or MFU is not
// reported.
struct Peaks {
  double stated = 0;
  double product = 0;  // the best matrix product that was timed (profile/peak_flops.h)
};

// Times a product on the device, on all ranks at once, if no peak is stated. Collective.
Peaks peaks_of(const comm::Group& group, double stated_gflops, at::ScalarType type, at::Device device);

enum class Ended { finished, budget, asked };
inline std::span<const Name<Ended>> names_of(Ended) {
  static constexpr Name<Ended> kNames[] = {
      {"finished", Ended::finished}, {"budget spent", Ended::budget}, {"asked to stop", Ended::asked}};
  return kNames;
}

struct TrainResult {
  int64_t steps = 0;
  Ended ended = Ended::finished;
  double loss = 0;  // of the last step; not private
  // Of the steps made by this run, of all ranks; not private.
  int64_t tokens = 0, padded_tokens = 0;  // without padding, and with it
  Seconds took{0};                        // without evaluations and checkpoints
  std::optional<Evaluation> evaluation, test;
  std::optional<privacy::Spent> spent;
};

class Trainer {
 public:
  struct Options {
    bool quiet = false;          // rank 0 writes metrics and prints nothing
    std::function<bool()> stop;  // asked before every step; true on any rank ends the run after it
    // While steps are made, SIGTERM and SIGINT ask to stop too, for the whole process (base/stop_signals.h). Before the
    // first step and when the last one is saved there is nothing to lose, and they end the process at once.
    bool answer_signals = false;
    Json environment{};                      // what it was started by, for the run directory; null: nothing is said
    std::shared_ptr<models::Model> model{};  // a program's own (models::kOwnModel); null: the recipe's
    bool saves = true;                       // false: no checkpoint is kept, and nothing can continue the run
  };

  // Collective. Reads, checks and loads all that the run needs; nothing of it is changed before run(). Without a
  // dataset the recipe's records are opened.
  Trainer(comm::World& world, Resolved<Recipe> run, std::shared_ptr<const data::Dataset> dataset, Options options);
  ~Trainer();

  // All collective. The whole run: all steps, then what is evaluated, exported and said after the last.
  TrainResult run();
  // The same in parts: the next step, none when all are made; then the end.
  std::optional<StepRecord> next();
  TrainResult finish();

  int64_t steps() const { return job_->steps(); }  // made, with those of earlier starts
  // What was spent so far, earlier starts included; none: why_no_epsilon() says why, or this is not rank 0.
  std::optional<privacy::Spent> spent() const { return spent_after(job_->steps()); }
  std::string why_no_epsilon() const { return spending_ ? spending_->no_epsilon() : "it is not private"; }
  const Resolved<Recipe>& run_spec() const { return run_; }  // with what the data say (DataFacts)
  models::Model& model() { return *model_; }
  shard::Runtime& runtime() { return job_->runtime(); }
  optim::Optimizer& optimizer() { return job_->optimizer(); }
  int64_t micro_batch() const { return job_->micro_batch(); }
  const Json& job_settings() const { return job_settings_; }  // as they are in the identity; for tests, written nowhere

 private:
  std::unique_ptr<Job> make_job();
  void resume(RunIdentity identity);
  void require_no_ledger() const;
  void require_a_step() const;
  void check_space() const;
  void begin();
  void begin_steps();
  bool may_go_on();
  void after(const StepRecord& record, Seconds took);
  bool evaluate_after(int64_t step);
  std::optional<privacy::Spent> spent_after(int64_t step) const;  // rank 0 alone; none: no epsilon may be stated
  StepReport measured(const StepRecord& record, Seconds took) const;
  void end();
  void say_what_was_made();
  void state();
  void export_all(bool again);
  bool any_asked() const;
  std::function<bool()> by_signal() const;

  comm::World* world_;
  Resolved<Recipe> run_;
  Options options_;
  std::shared_ptr<models::Model> model_;
  shard::Groups groups_;
  std::shared_ptr<const data::Dataset> dataset_;
  std::unique_ptr<const data::Dataset> test_records_;  // if there is a test folder
  HeldOut split_;
  std::unique_ptr<RunFolder> folder_;
  privacy::PrivacyEvent event_;
  std::unique_ptr<Spending> spending_;  // of a private run
  std::unique_ptr<Job> job_;
  Json job_settings_;
  std::unique_ptr<Exports> exports_;
  std::unique_ptr<Checkpoints> checkpoints_;
  std::unique_ptr<Evaluations> evaluations_;
  std::optional<Report> report_;
  int64_t last_ = 0;  // step
  Peaks peaks_;

  // Of the run under way.
  TrainResult result_;
  int64_t first_ = 0;               // step that it began after
  std::optional<StepRecord> made_;  // the last step of this process
  std::atomic<int64_t> current_{0};
  std::optional<StopSignals> signals_;
  bool over_ = false;
};

}  // namespace shade::train
