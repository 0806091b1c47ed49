// What a command of the documents leaves to its script, and says by the options that it gives: which model, which task,
// which batch. docs/words.md lists the rows.
#pragma once

#include <string>
#include <vector>

namespace shade::cli {

struct ImpliedWords {
  std::vector<std::string> arguments;  // what was given, and what follows from it
  std::vector<std::string> notes;      // what was added and why, line by line
};

// Of `shade bench`, in our words (cli/foreign_words.h). What is given, by an option or by a --config file, is never
// replaced.
ImpliedWords with_implied(std::vector<std::string> arguments);

}  // namespace shade::cli
