// A run of a program's own model on its own records: as shade train makes runs, in the same kind of folder.
//
//   train::Run run(world, net, records, {.budget = {{.epsilon = 4, .delta = 1e-5}}, .batch_size = 80, .steps = 60,
//                                        .folder = "run", .save_every = 20, .export_folder = "out"});
//   for (const auto& step : run) std::printf("%g\n", step.loss);
//
// Killed and started again, with as many ranks as there are, it continues from its last checkpoint: steps that were
// spent are made again to the bit, or counted again with other noise (train/run/trainer.h, which does all of it). shade
// report, shade release and shade ledger read the folder.
#pragma once

#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include "shade/accounting/event.h"
#include "shade/comm/world.h"
#include "shade/data/dataset.h"
#include "shade/models/model.h"
#include "shade/nn/dtype.h"
#include "shade/optim/config.h"
#include "shade/privacy/config.h"
#include "shade/shard/config.h"
#include "shade/train/step/job.h"

namespace shade::train {

class Trainer;

// What a private run may spend in all.
struct EpsilonDelta {
  double epsilon = 0;   // the noise follows from it, the batches and the number of steps
  double delta = 1e-5;  // choose it below 1 / number of units
};

// How a run trains. Without a budget and without sigma it is not private.
struct RunOptions {
  std::optional<EpsilonDelta> budget{};  // noise that spends it with the last step
  double sigma = 0;                      // in place of a budget: noise per clip norm; its epsilon follows
  double delta = 1e-5;                   // beside sigma
  double clip_norm = 1;                  // of each unit's gradient; of a run that is not private, of the mean gradient
  privacy::MethodName method = privacy::MethodName::automatic;  // how gradients are clipped
  privacy::PrivacyUnit unit = privacy::PrivacyUnit::record;     // what epsilon protects: record or user
  int64_t max_records_per_user = 0;                             // of a user's records in one step; required for users

  // Units of privacy in one update of all ranks together. In a private run each is drawn by itself, and so many is
  // their expected number and the divisor of their sum.
  int64_t batch_size = 0;
  // Public number of units: the rate is batch_size / population. 0: that of the records, which is then public.
  int64_t population = 0;
  int64_t steps = 0;                       // updates
  int64_t micro_batch = 0;                 // samples that a rank computes at a time; 0: as many as memory allows
  uint64_t seed = 0;                       // of the first weights; in runs that are not private, of batches too
  nn::DType dtype = nn::DType::fp32;       // of computation, fp32 or bf16
  optim::OptimConfig optimizer{};          // algorithm, learning rate, schedule, moving average
  std::optional<shard::Strategy> shard{};  // none: zero3 for several ranks

  std::string weights{};                 // folder or file of safetensors to start from; empty: as layers declare
  std::string records_name = "records";  // what the data are called in statements and messages
  std::string tokenizer{};               // of texts: "bytes", a file or folder; exported beside the weights
  double eval_rate = 0;                  // share of units that are held out and evaluated at the end
  // Where checkpoints, the ledger of privacy and metrics are kept. Empty: nothing is kept, and nothing continues.
  std::string folder{};
  int64_t save_every = 0;  // steps between checkpoints; 0: every ten minutes, and the last step
  int64_t keep = 2;        // checkpoints
  // New or empty folder for the weights and config.json when all steps are made, as others read them. It is tried
  // before the first step.
  std::string export_folder{};
  std::string data_ledger{};             // file that counts what all runs on these records spend (shade ledger)
  std::optional<uint64_t> noise_seed{};  // the same noise in every run, which protects nothing: for tests
  bool restart = false;                  // begin again although the ledger has steps and no checkpoint is left
  bool talks = false;                    // rank 0 prints what shade train prints
};

// Every rank makes one, with the same options; all members are collective unless said otherwise.
class Run {
 public:
  // Model and records must outlive it. Continues what the folder has. Throws UsageError: what is missing, contradicts
  // itself, or would spend steps a second time; it names the options below.
  Run(comm::World& world, models::Model& model, const data::Dataset& records, RunOptions options);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // The next step; none when the last one is made and saved.
  std::optional<StepRecord> step();
  // Makes all steps that are left, then what follows the last one.
  void finish();

  int64_t steps() const;  // made, with those of earlier starts; not collective
  // Spent by all steps so far, earlier starts included; none: the run is not private, or no epsilon can be stated. Not
  // collective; of rank 0, others have none.
  std::optional<privacy::Spent> spent() const;
  // "epsilon 3.98 at delta 1e-05 for each record", or why there is no guarantee; of rank 0. Not collective.
  std::string privacy() const;
  shard::Runtime& runtime();  // weights by rank (shard/runtime.h); not collective

  // Over the steps that are left: for (const auto& step : run).
  class Steps {
   public:
    using value_type = StepRecord;                          // what * gives
    using difference_type = std::ptrdiff_t;                 // what an input iterator must name
    const StepRecord& operator*() const { return *step_; }  // the step that was just made
    // Makes the next step.
    Steps& operator++() {
      step_ = run_->step();
      return *this;
    }
    void operator++(int) { ++*this; }                                  // the same
    bool operator==(std::default_sentinel_t) const { return !step_; }  // whether all steps are made

   private:
    friend class Run;
    explicit Steps(Run& run) : run_(&run), step_(run.step()) {}
    Run* run_;
    std::optional<StepRecord> step_;
  };
  Steps begin() { return Steps(*this); }               // makes the first step that is left
  static std::default_sentinel_t end() { return {}; }  // after the last one

 private:
  struct Kept;  // the folder of a run that keeps nothing
  std::unique_ptr<Kept> kept_;
  std::unique_ptr<Trainer> trainer_;
  bool finished_ = false;
};

}  // namespace shade::train
