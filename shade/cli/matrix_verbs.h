// What compare, scan and plan share: their own options, and the rest as a matrix of `shade bench` rows.
#pragma once

#include "shade/cli/verb.h"
#include "shade/measure/matrix.h"

namespace shade::cli {

size_t count_failed(const std::vector<Json>& results);

// What is left over on a line as words of `shade bench`: options by their usual names, values as words of their own.
// `complete`: with what follows from them (cli/foreign_words.h), and notes of that.
Arguments bench_words(const std::vector<std::string>& remaining, std::vector<std::string>& notes, bool complete = true);

// What a verb with all options of `shade bench` says of itself: its own options and those, and the end of its --help.
Description describe_with_bench(const CLI::App& app, const std::string& example);
std::string bench_footer(const CLI::App& app, const std::string& example, const std::string& more = "");

// Throws UsageError for one of the `given` words, options by their usual names, that has no effect in any row.
void require_used(const std::vector<std::vector<NoEffect>>& unused_by_row, const Arguments& given);

void print_once(const std::vector<std::string>& notes);  // those of several rows that are the same

class MatrixLine {
 public:
  MatrixLine(const std::string& verb, const std::string& summary, const std::string& example);

  CLI::App& app() { return app_; }
  Description description() const { return describe_with_bench(app_, example_); }
  // Empty: go on. What is left over are options of `shade bench`, each a value or a list of values.
  std::optional<int> parse(const Arguments& arguments);
  void use_ranks(int ranks);  // that a launcher has here (cli/driver.h), unless --ranks is given
  // The preset's options, if one was asked for, and then what is left over, which replaces them.
  Arguments words() const;

  // Every row is read as `shade bench` will read it, before the first one runs. Throws UsageError.
  std::vector<measure::MatrixRow> rows(const Arguments& arguments) const;
  // Runs them with progress; returns their results, in order.
  measure::MatrixOutcome run(const std::vector<measure::MatrixRow>& rows);

  measure::MatrixOptions options;
  std::string json_file, preset, scale = "small";

 private:
  CLI::App app_;
  std::string example_;
  Arguments rest_;                  // options by their usual names, values as words of their own
  std::vector<std::string> notes_;  // of what follows from the options
  std::string folder_, row_limit_, memory_limit_, budget_, log_level_ = "warning";
};

}  // namespace shade::cli
