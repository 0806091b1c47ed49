// What a training step will need, for programs that choose a model, a batch or a strategy before they start ranks: a
// row of `shade plan`.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "shade/base/units.h"

namespace shade::plan {

struct PlanOptions {
  // Options of `shade plan` by their key in files, "section.name": {{"model.model", "llama3-8b"}, {"shard.shard",
  // "zero3"}, {"dp.dp", "auto"}, {"bench.seq_length", "1024"}}. What is left out has the program's default.
  std::map<std::string, std::string> options;
  int ranks = 1;               // simulated: no process is started
  std::string device_profile;  // a name ("h100-80g") or a file of `shade calibrate`; empty: a CPU, without times
};

// Of the rank that needs most.
struct PlannedStep {
  Bytes peak;                   // of tensors, at most
  Bytes between_steps;          // of tensors that stay: weights, state of the optimizer
  Bytes reserved;               // by the allocator of an accelerator, at most; 0 on a CPU
  Bytes sent;                   // in a step
  double flops = 0;             // in a step
  std::optional<Seconds> time;  // of a step, with a device profile
  bool fits = true;             // into the memory of the device profile
  std::string json;             // all of it, as --json of `shade plan` has a row
};

// A dry run on meta tensors, in this process; sets libtorch's number of threads to that of the planned run. Throws
// UsageError naming an option that is unknown or a run that would be refused.
PlannedStep plan_step(const PlanOptions& options);

}  // namespace shade::plan
