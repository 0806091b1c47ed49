// What shade plan and compare read for their plans: a row of the matrix as a run, and the device of their times.
#pragma once

#include <CLI/App.hpp>

#include <set>
#include <string>
#include <vector>

#include "shade/cli/verb.h"
#include "shade/measure/matrix.h"
#include "shade/plan/planned.h"

namespace shade::cli {

// The part of shade plan about time: for which device.
class PlanTime {
 public:
  void add_to(CLI::App& app);  // must outlive its parse
  void read();                 // the profile that was named; throws UsageError

  const plan::Target& target() const { return target_; }
  const std::optional<plan::DeviceProfile>& device() const { return target_.device; }
  std::string table(const std::vector<plan::Planned>& rows) const;  // of those with a time; empty: none has one

 private:
  std::string profile_;
  plan::Target target_;
};

// A row of a matrix, read as `shade bench` reads it, --ranks as ranks that are simulated.
struct StatedRow {
  measure::MatrixRow row;
  measure::Experiment experiment;  // as it was stated
  shade::Given given;
  std::set<std::string> on_line;  // fields that the row's own words state, not a file
  std::vector<NoEffect> unused;   // options that have no effect in this row
  train::Resolved<measure::Experiment> run;

  plan::Planned planned() const { return {.name = row.name, .run = run}; }
};

// What was chosen that was not stated is added to `notes`, once. Throws UsageError.
StatedRow read_row(const measure::MatrixRow& row, std::vector<std::string>& notes);

}  // namespace shade::cli
