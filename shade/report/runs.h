// The metrics of training runs as curves: what `shade report` knows of a directory that `shade train` wrote.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shade/base/json.h"
#include "shade/report/rows.h"

namespace shade::report {

using Curve = std::map<int64_t, double>;  // by the number of updates made; a value that is not finite is NaN

struct TrainingRun {
  std::string name;  // of the directory; the path where two are called the same
  std::string date;  // when its metrics were last written, in UTC
  Curve loss;        // of the batch
  Curve held_out;    // of records never trained on
  Curve epsilon;     // spent
  double delta = 0;
  std::string unit;      // what it protects, if that is not a record
  Settings environment;  // of its last start; of a private run without host and command
  Settings settings;     // of its last start: "optim.lr" -> "0.01"
  bool is_private = false;
  bool void_epsilon = false;             // the noise has a seed
  std::optional<int64_t> first_without;  // a step that no epsilon was stated of; what came before has none any more
  std::optional<int64_t> first_plain;    // a step without privacy

  int64_t steps() const;
  std::string privacy() const;  // "epsilon 8.00 at delta 1e-05", "private, no epsilon since step 7", ""
};

bool is_training_run(const std::filesystem::path& folder);  // it has metrics.jsonl

// In the order given. Throws UsageError for a folder that is none, and Error naming file and line for one that is
// broken.
std::vector<TrainingRun> read_training_runs(const std::vector<std::filesystem::path>& folders);

std::string summary_of(const std::vector<TrainingRun>& runs);
Json json_of(const std::vector<TrainingRun>& runs);

}  // namespace shade::report
