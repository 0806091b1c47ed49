// One row of `shade plan`: what was asked for, and what a dry run of it found.
#pragma once

#include <optional>

#include "shade/cli/plan_time.h"
#include "shade/cli/verb.h"
#include "shade/measure/bench.h"
#include "shade/measure/matrix.h"
#include "shade/plan/step_record.h"

namespace shade::cli {

struct Planned {
  measure::MatrixRow row;
  measure::Experiment experiment;
  int ranks = 1;
  std::optional<Bytes> capacity;  // of an accelerator's memory that may be used; none: all of it
  plan::StepRecord record;
  std::optional<PlanTime::Row> time;  // with a device profile
  Json timeline;                      // of the predicted step (plan/step_timeline.h); null: none
  Bytes process;                      // besides tensors, by the device profile; 0: not known
  std::vector<NoEffect> unused;       // options that have no effect in this row
  std::string refused;                // why it can't be run at all; empty: it can

  // The words of a row as `shade bench` reads them, --ranks as ranks that are simulated. What was chosen that was not
  // stated is added to `notes`, once. Throws UsageError.
  static Planned read(const measure::MatrixRow& row, std::vector<std::string>& notes);

  // The dry run, and its time on the device that was named. A row that a run would refuse has `refused`. The events of
  // a step are kept only if they are asked for: those of many rows would fill the memory. timeline: they are dropped
  // once `timeline` has been made of them.
  enum class Events { drop, keep, timeline };
  void make(const PlanTime& time, Events events = Events::drop);

  // Of a rank's process on a CPU at most; 0: the device profile doesn't say what it has besides tensors.
  Bytes resident() const { return process.count > 0 ? Bytes{process.count + record.pages.count} : Bytes{}; }

  Json json() const;
};

}  // namespace shade::cli
