// The checkpoints of a run: the one it goes on from, and those it saves.
#pragma once

#include "shade/checkpoint/store.h"
#include "shade/train/history.h"
#include "shade/train/job.h"
#include "shade/train/saved.h"

namespace shade::train {

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
    int64_t save_every = 0;  // steps; 0: by the clock
    Seconds save_interval{0};
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
  bool is_due() const;  // by the clock of rank 0; the others learn of it with the step's losses
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

}  // namespace shade::train
