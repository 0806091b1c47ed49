// One planned run: what was asked for, what a dry run of it found, and what that takes on a device.
#pragma once

#include <optional>
#include <string>

#include "shade/measure/bench.h"
#include "shade/plan/cost.h"
#include "shade/plan/step_record.h"

namespace shade::plan {

struct PlannedTime {
  double tokens_per_second = 0;  // of all ranks
  double mfu = 0;                // 0: not known
  bool fits = true;              // what is reserved at most within the device's memory
  TimePrediction time;

  Json json() const;
};

// What times are predicted for.
struct Target {
  std::optional<DeviceProfile> device{};  // none: no times
  TimeOptions options{};

  // For DryRunOptions: none where no accelerator was named.
  std::optional<Bytes> accelerator() const;
  PlannedTime predict(const StepRecord& record) const;  // of a device that was named
};

struct Planned {
  std::string name;
  train::Resolved<measure::Experiment> run;
  std::optional<Bytes> capacity{};  // of an accelerator's memory that may be used; none: all of it
  StepRecord record{};
  std::optional<PlannedTime> time{};            // with a device profile
  std::optional<catalog::Timeline> timeline{};  // of the predicted step (plan/step_timeline.h)
  Bytes process{};                              // besides tensors, by the device profile; 0: not known
  std::string refused{};                        // why it can't be run at all; empty: it can

  int ranks() const { return run.ranks(); }
  // The dry run, and its time on the device that was named. A run that would be refused has `refused`. The events of a
  // step are kept only if they are asked for: those of many runs would fill the memory. timeline: they are dropped once
  // `timeline` has been made of them.
  enum class Events { drop, keep, timeline };
  void make(const Target& target, Events events = Events::drop);

  // Of a rank's process on a CPU at most; 0: the device profile doesn't say what it has besides tensors.
  Bytes resident() const { return process.count > 0 ? Bytes{process.count + record.pages.count} : Bytes{}; }

  Json json() const;
};

}  // namespace shade::plan
