// A training step made on meta tensors in a simulated world: the real model, runtime, clipping method and optimizer,
// with sizes and no numbers. What it needs and moves is read from the ledgers that listen to real steps (profile/,
// comm's traffic log), so a plan has no formulas of its own.
#pragma once

#include <optional>

#include "shade/measure/bench.h"
#include "shade/plan/step_record.h"

namespace shade::plan {

struct DryRunOptions {
  int ranks = 1;
  // Memory of the accelerator that the step is planned for: layers then ask for few large operators (nn/launches.h).
  // None: the step is planned for a CPU.
  std::optional<Bytes> accelerator{};
  std::optional<Bytes> capacity{};  // what its allocator may reserve; none: all of it
  Seconds patience{0};              // after which it is given up with an Error; 0: as long as it takes
};

// What rank 0, whose shards are the largest, does in its second step, and the peak of its memory since the beginning.
// It counts in books of its own (base/execution.h), so it leaves no trace in the process's, and several may run at
// once, each on a thread. Throws UsageError as the experiment itself would.
StepRecord dry_run(const measure::Experiment& experiment, const DryRunOptions& options);

}  // namespace shade::plan
