// A matrix of experiments: every option whose value is a list is an axis, rows are their product.
#pragma once

#include <functional>

#include "shade/measure/runner.h"

namespace shade::measure {

struct Axis {
  std::string option;  // "--seq-length"
  std::vector<std::string> values;
};

struct MatrixRow {
  std::string name;                    // of its files: ghost_seq1024_zero3
  std::vector<std::string> arguments;  // of `shade bench`
};

// `--dp none,ghost --seq-length 512,1024 --ranks 2`: two axes, and what all rows share. Options that are lists by
// nature are not split. An option that comes again, in whatever spelling, replaces what was said before: a preset's
// values are overridden by what follows it. The first word of a row's name is its mode.
std::vector<MatrixRow> expand(const std::vector<std::string>& arguments);

struct MatrixOptions {
  std::filesystem::path folder;
  int64_t repeat = 1;
  bool resume = false;
  Seconds row_limit{3600};
  Bytes memory_limit{0};  // of each process
  std::string command;    // that asked for the matrix: goes into `environment` of the results
};

struct MatrixProgress {
  size_t done, all;
  std::string row;
};

// Runs what is missing, repeats in turns (all rows, then all rows again), and merges each row's repeats into
// NAME_result.json: times of all, memory of the largest; {"failed": true, "reason"} if one failed. Returns these,
// in the order of the rows.
std::vector<Json> run_matrix(const std::vector<MatrixRow>& rows, const MatrixOptions& options,
                             const std::function<void(const MatrixProgress&)>& progress);

}  // namespace shade::measure
