// A training job: a model, its data, how it is sharded, clipped and optimized, put together in one place.
//
//   train::Job job(world, {.model = &model, .data = &data, .step = {.privacy = event}, .batch_size = 64, .steps =
//   100}); while (const auto record = job.step()) std::printf("%f\n", record->loss);  // the loss is not private
//
// `shade train`, bench, verify, audit and the examples are built on it. Weights, optimizer state and groups exist when
// it is constructed; the step and the order of the data are made at the first use, so that a checkpoint can be loaded
// and a micro-batch chosen before.
#pragma once

#include <optional>

#include "shade/accounting/accountant.h"
#include "shade/comm/group.h"
#include "shade/comm/world.h"
#include "shade/data/dataset.h"
#include "shade/optim/config.h"
#include "shade/profile/memory.h"
#include "shade/train/feed/held_out.h"
#include "shade/train/feed/loader.h"
#include "shade/train/step/step.h"

namespace shade::catalog {

struct PeakOwner;

}  // namespace shade::catalog

namespace shade::train {

class History;
class RunFolder;

// What a job trains, on what, and how. A model is required, and with `data` a batch_size or a privacy event.
struct JobOptions {
  models::Model* model = nullptr;  // must outlive the job
  // Must outlive it; null: batches are passed to step(). The next batch is read on another thread while a step is made
  // and after step() returned.
  const data::Dataset* data = nullptr;
  std::optional<HeldOut> split{};  // which records are trained on; none: all

  // What each step does: whether it is private, how samples are clipped, hooks. The job sets its micro_shapes, and its
  // grad_clip as the optimizer says. With a `key` no epsilon is stated; it is asked on another thread too, which reads
  // ahead (as `data` is).
  StepOptions step{};
  std::optional<privacy::Mechanism> sampling{};  // of batches that are not private; none: shuffled
  std::string folder{};  // where a private job keeps its ledger; empty: what was spent is known to this process alone

  optim::OptimConfig optimizer{};      // with schedule, clipping of the whole gradient, moving average
  shard::ShardConfig shard{};          // several ranks need a strategy other than none
  std::optional<at::Device> device{};  // none: the world's (comm::World::device)
  nn::DType dtype = nn::DType::fp32;   // of computation

  // Of all ranks together in one update; of a private job the divisor of its event, which may stand for both.
  int64_t batch_size = 0;
  // Samples of full length at a time on a rank; 0: its share of a batch. Of shorter ones there are more
  // (train/feed/micro_shapes.h).
  int64_t micro_batch = 0;
  Padding padding = Padding::longest;  // of data that has lengths (data::Dataset::max_length)
  // Of a private job that protects users: a sample is a user, with at most so many records of theirs in a step. Its
  // split is by user (HeldOut::by_user), and batch_size and micro_batch count users.
  int64_t max_records_per_user = 0;
  int64_t steps = 0;  // 0: those of the privacy event, or until the caller has enough
  uint64_t seed = 0;  // of the first weights, and of batches that are not private

  // For programs around a job.
  std::function<void(shard::Runtime& runtime)> weights{};  // fills them; unset: as `seed` says
  std::optional<shard::Groups> groups{};  // of an earlier job in this world, which connects each mesh once
  // The event is one that no accountant supports, or the batches are the caller's: no epsilon may be stated.
  bool unaccounted = false;
};

// One rank's part of a training job. Every rank makes one, with the same options.
class Job {
 public:
  // Collective. Throws UsageError: what is missing, contradicts itself or would weaken a private job.
  Job(comm::World& world, JobOptions options);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // All collective. The next step, on records of the data set; none: all steps are made.
  std::optional<StepRecord> step(Step::Wishes wishes = {});
  // The next step on these micro-batches. Of a private job only if it is unaccounted: the event's sampler didn't draw
  // them.
  StepRecord step(std::span<const nn::Batch> micro_batches, Step::Wishes wishes = {});
  // The (clipped) sum alone: no noise, no update.
  Step::Losses gradients(std::span<const nn::Batch> micro_batches) { return stepper().gradients(micro_batches); }
  void add_noise();  // to that sum; of rehearsals alone, because it is counted nowhere

  // Sets the largest micro-batch that stays within `limit` bytes of tensors on the device of every rank, by trying.
  // Before the first step.
  void find_micro_batch(Bytes limit);
  void require_memory_of_users(Bytes limit);  // for one user with as many records as one may have
  void use_micro_batch(int64_t samples);      // sets one that is known; before the first step
  void end_at(int64_t steps);                 // earlier than the options say

  bool is_private() const { return options_.step.privacy.has_value(); }  // the options have a privacy event
  int64_t steps() const { return optimizer_->steps(); }                  // made
  int64_t micro_batch() const { return micro_batch_; }                   // samples of full length at a time on a rank
  // How samples of the data set are padded, and how many of them a rank computes at a time.
  const MicroShapes& shapes();
  // What was spent by all noise drawn so far, with earlier jobs in the same folder; none: no epsilon can be stated.
  std::optional<privacy::Spent> spent(privacy::Accountant accountant = privacy::Accountant::prv) const;
  const std::string& no_epsilon() const { return no_epsilon_; }  // why; empty: one can

  models::Model& model() { return *options_.model; }        // as passed in the options
  shard::Runtime& runtime() { return *runtime_; }           // has the weights of the model
  optim::Optimizer& optimizer() { return *optimizer_; }     // of a private job: throws if it updates outside step()
  privacy::Method& method() { return stepper().method(); }  // made at the first use, with the step
  const shard::Groups& groups() const { return runtime_->groups(); }  // of the strategy; `control` has all ranks
  at::Device device() const { return runtime_->device(); }            // on which this rank computes

  // Of the batch of the last step.
  struct Loading {
    Seconds waited{0};  // by the step
    Seconds took{0};    // beside the step before
  };
  const Loading& loading() const { return loading_; }  // zeros before the first step on the data set
  std::string describe_batches();                      // "poisson, rate 0.01 of 900 records"; needs a data set
  // The weight or unit that a span's index counts (base/span.h); empty: nothing.
  std::string name_of(SpanName span, int64_t index);
  catalog::PeakOwner owner_of(const profile::PeakPlace& place);  // with those names
  // JSON: all that decides the bits of its steps beside first weights, keys and the machine (train/budget/identity.h),
  // before the first one. Some of it follows from the records: it is to be hashed with a key, and written nowhere.
  std::string settings();

 private:
  Step& stepper();
  Step& next_step();
  Step rehearsal();
  void try_samples(Step& trial, int64_t samples, int64_t rows);
  StepOptions step_options() const;
  int64_t most_fixed() const;
  MicroShapes::Options shapes_of(int64_t micro_batch) const;
  int64_t rows_of_sample() const;  // at most
  std::unique_ptr<Loader> make_loader();
  void open_ledger(const std::string& folder);

  JobOptions options_;
  int ranks_, rank_;
  std::string world_;  // JSON
  int64_t end_ = 0;    // 0: no end
  int64_t micro_batch_ = 0;
  std::optional<MicroShapes> shapes_;  // when asked for
  std::unique_ptr<shard::Runtime> runtime_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<RunFolder> folder_;
  std::unique_ptr<History> history_;     // if there is a folder
  std::vector<privacy::Steps> earlier_;  // in the ledger
  std::string no_epsilon_;
  std::unique_ptr<Step> step_;
  std::unique_ptr<Loader> loader_;
  Loading loading_;
};

}  // namespace shade::train
