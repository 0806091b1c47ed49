// A matrix of experiments: every option whose value is a list is an axis, rows are their product.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shade/measure/paired.h"
#include "shade/measure/runner.h"

namespace shade::measure {

struct Axis {
  std::string option;  // "--seq-length"
  std::vector<std::string> values;
};

struct MatrixRow {
  std::string name;                                         // of its files: ghost_seq1024_zero3
  std::vector<std::string> arguments;                       // of `shade bench`
  std::vector<std::pair<std::string, std::string>> varied;  // its place on every axis: {option, value}
  std::string model_name;                                   // what its model may be called; of rows that fail, too
};

// The first spelling of an option of `shade bench`, of whatever spelling: --model for --model_name. Other words stay.
std::string usual_spelling(const std::string& word);

// `--dp none,ghost --seq-length 512,1024 --ranks 2`: two axes, and what all rows share. Options that are lists by
// nature are not split. An option that comes again, in whatever spelling, replaces what was said before: a preset's
// values are overridden by what follows it. The first word of a row's name is its mode.
std::vector<MatrixRow> expand(const std::vector<std::string>& arguments);

// How often every row runs.
struct RepeatRule {
  static constexpr double kDefaultRounds = 12;
  int64_t repeat = 0;             // exact number of rounds; 0: until ratios are precise, within the budget
  std::optional<Seconds> budget;  // absent: twelve times the first round, at most `most`; if that doesn't allow for an
  Seconds most{600};              // interval, one round
};

struct MatrixOptions {
  std::filesystem::path folder;
  RepeatRule repeats;
  bool resume = false;
  Seconds row_limit{3600};
  Bytes memory_limit{0};  // of each process
  Json preset;            // {name, scale}, for result files; null: none
  std::string command;    // that asked for the matrix: goes into `environment` of the results
};

struct MatrixProgress {
  int64_t round;     // from 1
  size_t done, all;  // of this round
  std::string row;
};

struct MatrixOutcome {
  std::vector<Json> results;                 // in the order of the rows
  std::vector<std::optional<Ratio>> ratios;  // of each; empty: it is compared with none
  std::string advice;                        // on ratios that are not precise; empty: none
};

// Runs what is missing, repeats interleaved (all rows, then all rows again), and merges each row's repeats into
// NAME_result.json (catalog/merged_runs.h), with `ratio` to the row it is compared with (rounds.h);
// {"failed": true, "reason"} if one failed. shade report reads repeats/ of a matrix that was cut short.
MatrixOutcome run_matrix(const std::vector<MatrixRow>& rows, const MatrixOptions& options,
                         const std::function<void(const MatrixProgress&)>& progress);

// The five documents' experiments, as rows of options.
enum class Scale { small, full };

struct Preset {
  const char* name;
  const char* what;
  const char* shared;       // options of both scales
  const char* small_sizes;  // a few minutes on two cores
  const char* full_sizes;   // as the document has it
};

const std::vector<Preset>& presets();
std::vector<std::string> preset_names();

// A word among a preset's options that stands for a folder of texts: who runs it makes one.
inline constexpr const char* kCorpus = "{corpus}";

// Throws UsageError with the nearest name.
std::vector<std::string> preset_arguments(const std::string& name, Scale scale);

}  // namespace shade::measure
