// The metrics of training runs as curves: what `shade report` knows of a directory that `shade train` wrote.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "shade/base/json.h"
#include "shade/report/rows.h"

namespace shade::report {

using Curve = std::map<int64_t, double>;  // by the number of updates made; a value that is not finite is NaN

// A score of an evaluation: `eval_KEY` and `test_KEY` of metrics.jsonl.
struct ScoreInfo {
  const char *key, *heading;
  bool is_share = false;           // shown in percent
  const char* baseline = nullptr;  // the score that a model without any skill reaches
};
inline constexpr const char* kMajority = "majority";
inline constexpr ScoreInfo kScores[] = {
    {.key = "accuracy", .heading = "accuracy", .is_share = true, .baseline = kMajority},
    {.key = kMajority, .heading = "most frequent class", .is_share = true},
    {.key = "f1", .heading = "macro F1"},
    {.key = "exact_match", .heading = "exact match", .is_share = true},
    {.key = "perplexity", .heading = "perplexity"},
};

// What the caller knows of a run and its directory alone doesn't tell: reading recipes and ledgers takes libtorch.
struct RunDetails {
  std::vector<std::string> statement;    // the privacy statement, paragraph by paragraph; empty: none
  std::set<std::string> without_effect;  // settings that change nothing in this run: "dp.sigma" without privacy
};

struct TrainingRun {
  std::string name;                     // of the directory; with those above it that tell two of one name apart
  std::string date;                     // when its metrics were last written, in UTC
  std::string task;                     // "lm", "classify", ...; empty: unknown. Losses of two tasks are not comparable
  Curve loss;                           // of the batch
  Curve held_out;                       // of records never trained on
  std::map<std::string, Curve> scores;  // of held-out records, by ScoreInfo::key
  std::map<std::string, double> test;   // "loss" and scores of the test records, at the end
  Curve epsilon;                        // spent
  double delta = 0;
  std::string unit;                    // what it protects, if that is not a record
  Settings environment;                // of its last start; of a private run without host and command
  Settings settings;                   // of its last start: "optim.lr" -> "0.01"
  std::vector<std::string> statement;  // RunDetails::statement
  bool is_private = false;
  bool void_epsilon = false;             // the noise has a seed
  std::optional<int64_t> first_without;  // a step that no epsilon was stated of; what came before has none any more
  std::optional<int64_t> first_plain;    // a step without privacy

  int64_t steps() const;
  // "epsilon 8.00 at delta 1e-05", "private, no epsilon since step 7", "". Of a run that spends from a data ledger:
  // "epsilon 8.00 at delta 1e-05 (this run alone)".
  std::string privacy() const;
  bool has_data_ledger() const;
};

bool is_training_run(const std::filesystem::path& folder);  // it has metrics.jsonl

// In the order given; `details` has an element for each folder, or is empty. Throws UsageError for a folder that is
// none, and Error naming file and line for one that is broken.
std::vector<TrainingRun> read_training_runs(const std::vector<std::filesystem::path>& folders,
                                            const std::vector<RunDetails>& details = {});

// Losses of different tasks have an axis each.
struct LossChart {
  std::string title;         // "Loss"; of several charts "Loss (classifier)"
  std::vector<size_t> runs;  // by number
};
std::vector<LossChart> loss_charts(const std::vector<TrainingRun>& runs);

struct Finding;
std::vector<Finding> findings_of(const std::vector<TrainingRun>& runs);  // classifiers below their majority class
std::string summary_of(const std::vector<TrainingRun>& runs);
Json json_of(const std::vector<TrainingRun>& runs);

}  // namespace shade::report
