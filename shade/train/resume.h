// The checkpoint that a run goes on from.
#pragma once

#include "shade/checkpoint/store.h"
#include "shade/train/saved.h"

namespace shade::train {

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
// goes back to that checkpoint once: the same command goes on from what was saved since. A private run goes on from its
// own checkpoints alone, since another run's spending is in another ledger. Empty: nothing was saved. Throws.
std::optional<Resumed> resume(checkpoint::Store& store, const comm::Group& control, shard::Runtime& runtime,
                              optim::Optimizer& optimizer, const ResumeOptions& options);

}  // namespace shade::train
