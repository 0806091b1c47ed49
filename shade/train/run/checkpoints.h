// The checkpoints of a run: the one it continues from, and those it saves.
#pragma once

#include <optional>
#include <string>

#include "shade/base/json.h"
#include "shade/checkpoint/ledger.h"
#include "shade/checkpoint/store.h"
#include "shade/train/budget/history.h"
#include "shade/train/step/job.h"

namespace shade::train {

// What a run keeps in its checkpoints beside weights and optimizer: the caller's JSON of a manifest.
struct Saved {
  // Others may read a checkpoint: of a private run, identity and data are keyed hashes, or absent without a key.
  std::optional<std::string> identity, data;
  int64_t micro_batch = 0;
  Json settings;      // changes.h
  std::string began;  // the checkpoint that --resume-from named, before all steps since
  bool is_private = false;
  std::optional<checkpoint::Origin> origin;  // of a private run; none: no step was made
  double clip_norm = 0;                      // of a private run
  std::optional<double> noise_variance{};    // optim::Optimizer's; none: it corrects for no noise
  Json model_config{};                       // config.json of a program's own model; null: the recipe names the model

  Json json() const;
  static Saved from_json(const Json& json);  // throws UsageError naming what is missing
};

// What a run is, to be compared with the one that saved a checkpoint.
struct RunIdentity {
  std::string digest;  // identity.h
  Json settings;       // changes.h
  std::string data;    // number and fingerprint of the records
};

class Checkpoints {
 public:
  struct Options {
    std::string resume_from;  // ResumeOptions::from
    int64_t keep = 2;
    int64_t save_every = 0;  // steps; 0: by save_interval
    Seconds save_interval{0};
    Json model_config{};  // Saved::model_config
    bool saves = true;    // false: save() does nothing
  };
  // All must outlive it; `history` is null if the run is not private. Collective, as are resume() and save().
  Checkpoints(comm::World& world, const RunFolder& folder, Job& job, History* history, RunIdentity identity,
              Options options);

  // Loads the state to go on from, if there is one.
  std::optional<Saved> resume();
  int64_t saved() const { return saved_; }             // after which step; -1: never
  const std::string& began() const { return began_; }  // a checkpoint: --resume-from
  bool changed() const { return changed_; }            // not what was saved in identity, e.g. settings or data
  const std::vector<std::string>& changes() const { return changes_; }  // by name; also what changes no bit of a step

  void save(bool wait);
  void start_clock() { saved_at_ = Clock::now(); }
  bool is_due() const;  // by rank 0's clock; the others learn of it with the step's losses
  const checkpoint::Store& store() const { return store_; }

 private:
  void compare(const Saved& saved);
  std::string explain_refusal(const std::string& refusal) const;

  Job* job_;
  History* history_;
  RunIdentity identity_;
  Options options_;
  checkpoint::Store store_;
  int64_t saved_ = -1;
  Clock::time_point saved_at_;
  std::string began_;
  bool changed_ = false;
  std::vector<std::string> changes_;
};

// The checkpoint that a run continues from.
struct Resumed {
  std::filesystem::path folder;  // of the checkpoint
  Saved saved;
};

struct ResumeOptions {
  std::string
      from;  // --resume-from: a checkpoint's folder, or the name of one of this run; empty: the newest whole one
  bool is_private = false;
};

// Collective over `control`. Loads the checkpoint and warns about those that had to be passed over. With `from` the run
// goes back to that checkpoint once: the same command continues from what was saved since. A private run continues from
// its own checkpoints alone, since another run's spending is in another ledger. Empty: nothing was saved. Throws.
std::optional<Resumed> resume(checkpoint::Store& store, const comm::Group& control, shard::Runtime& runtime,
                              optim::Optimizer& optimizer, const ResumeOptions& options);

}  // namespace shade::train
