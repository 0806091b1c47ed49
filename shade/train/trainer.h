// Training from a recipe to the last step.
//
// The flow: draw a batch (a function of key and step) -> this rank's micro-batches, loaded while the step before runs
// -> Step -> report, evaluate, save. A private run ends before its budget would be exceeded; an empty batch still makes
// its step, with noise.
//
// A run directory that has a checkpoint is continued. A step that is made again is the same step: batch and noise are
// functions of (incarnation key, step). If anything differs that could change its bits (world, strategy, recipe,
// machine; train/identity.h), it would be another step with the same noise, whose difference tells about the records;
// then a new incarnation begins, with other batches and other noise, and what was spent stays spent. Steps that the
// ledger doesn't have always come from random bytes of this process (train/history.h).
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <optional>

#include "shade/checkpoint/store.h"
#include "shade/comm/world.h"
#include "shade/data/dataset.h"
#include "shade/train/budget.h"
#include "shade/train/exports.h"
#include "shade/train/held_out.h"
#include "shade/train/history.h"
#include "shade/train/identity.h"
#include "shade/train/micro_batch.h"
#include "shade/train/peaks.h"
#include "shade/train/report.h"
#include "shade/train/saved.h"

namespace shade::train {

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
  };

  // Collective. `config` has the recipe's fields, to be written down as they were resolved. Without a dataset the model
  // makes up its records.
  Trainer(comm::World& world, Recipe& recipe, const Config& config, std::unique_ptr<const data::Dataset> dataset,
          Options options);
  ~Trainer();

  TrainResult run();  // collective

  models::Model& model() { return *model_; }
  shard::Runtime& runtime() { return *runtime_; }
  optim::Optimizer& optimizer() { return *optimizer_; }
  int64_t micro_batch() const { return micro_batch_; }

 private:
  struct Loaded {
    std::vector<nn::Batch> micro_batches;
    int64_t samples = 0;  // of all ranks
    Seconds took{0};      // on the thread that loads
  };
  Loaded load(int64_t step) const;
  Evaluation test();
  bool evaluate_after(int64_t step, TrainResult& result);
  bool owes_evaluation() const;
  bool any_asked() const;
  std::function<bool()> by_signal() const;
  void start_model();
  void resume();
  void require_no_ledger();
  void read_history(const std::optional<checkpoint::Origin>& from);
  privacy::NoiseKey key_of(int64_t step) const;
  std::unique_ptr<data::Sampler> sampler(const privacy::NoiseKey& key) const;
  void compare(const Saved& saved);
  void require_restart() const;
  bool save_is_due() const;
  void check_space();
  void export_all(bool again);
  void forget_key();
  void save(bool wait);
  StepOptions step_options() const;
  int64_t find_micro_batch();
  void introduce();
  StepReport measured(const StepRecord& record, const Loaded& batch, Seconds took, Seconds waited);

  comm::World* world_;
  Recipe* recipe_;
  Options options_;
  std::unique_ptr<models::Model> model_;
  shard::Groups groups_;
  std::unique_ptr<const data::Dataset> dataset_;
  std::unique_ptr<const data::Dataset> test_records_;  // if there is a test folder
  HeldOut split_;
  std::unique_ptr<RunFolder> folder_;
  privacy::PrivacyEvent event_;
  std::optional<Budget> budget_;  // of a private run that may say an epsilon
  std::string no_epsilon_;        // why it may not
  int64_t last_ = 0;              // step
  int64_t made_ = 0;              // steps below it are in the ledger
  int64_t spent_ = 0;             // steps in the ledger, of all histories of this run
  std::unique_ptr<shard::Runtime> runtime_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<Exports> exports_;
  std::unique_ptr<Step> step_;
  int64_t micro_batch_ = 0;  // 0: not found yet
  Peaks peaks_;
  Identity identity_;
  Json settings_;     // changes.h
  std::string data_;  // number and fingerprint of the records
  std::unique_ptr<checkpoint::Store> store_;
  int64_t saved_ = -1;  // after which step
  Clock::time_point saved_at_;
  std::string began_;                 // a checkpoint: --resume-from
  bool changed_ = false;              // not what was saved in identity, e.g. settings or data
  std::vector<std::string> changes_;  // by name; also of what doesn't change a step's bits
  std::unique_ptr<History> history_;  // of a private run
  std::optional<Report> report_;
};

}  // namespace shade::train
