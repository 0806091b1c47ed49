// One row of `shade plan`: what was asked for, and what a dry run of it found.
#pragma once

#include <CLI/App.hpp>

#include <optional>
#include <string>
#include <vector>

#include "shade/cli/verb.h"
#include "shade/measure/bench.h"
#include "shade/measure/matrix.h"
#include "shade/plan/cost.h"
#include "shade/plan/step_record.h"

namespace shade::cli {

// The part of shade plan about time: which device, and what a recorded step takes there.
class PlanTime {
 public:
  void add_to(CLI::App& app);  // must outlive its parse
  void read();                 // the profile that was named; throws UsageError

  const std::optional<plan::DeviceProfile>& device() const { return device_; }
  const plan::TimeOptions& options() const { return options_; }
  // For plan::DryRunOptions: none where no accelerator was named.
  std::optional<Bytes> accelerator() const;

  struct Row {
    std::string name;
    double tokens_per_second = 0;  // of all ranks
    double mfu = 0;                // 0: not known
    bool fits = true;              // what is reserved at most within the device's memory
    plan::TimePrediction time;

    Json json() const;
  };
  Row predict(const std::string& name, const plan::StepRecord& record) const;  // of a device that was named
  std::string table(const std::vector<Row>& rows) const;

 private:
  std::string profile_;
  plan::TimeOptions options_;
  std::optional<plan::DeviceProfile> device_;
};

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
