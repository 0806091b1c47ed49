// Words that people bring from other programs and that are no options here: a row for each. Another name of an option
// that takes the same values is no row but a flag of its field.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shade::cli {

struct ForeignWord {
  std::string_view word;
  std::string_view value = {};    // the row is for this value; "*": for any other; empty: a switch
  std::string_view becomes = {};  // our words; an option without a value gets the one that was given
  std::string_view refusal = {};  // why there is no such option, and which is ours
  std::string_view verbs = {};    // "bench train": the row is for these; empty: for all
};

// A word of a command line with its value.
struct Given {
  std::string option;
  std::optional<std::string> value;  // what follows '=', or the next word
  bool joined = false;
};
Given given_at(const std::vector<std::string>& arguments, size_t i);

// What a command line knows of its own options.
struct OwnOptions {
  std::string verb;
  std::function<const void*(const std::string&)> find;  // which option is spelled so; null: none
};

// Foreign words become ours. Throws UsageError where there is no such thing, and where a foreign word and one of ours
// set the same option.
std::vector<std::string> in_own_words(const std::vector<std::string>& arguments, const OwnOptions& own);

// The rows that have a meaning for these options, and what they become: "--device cpu", "--comm.backend gloo".
std::vector<std::pair<std::string, std::string>> foreign_words(const OwnOptions& own);

// The same for --help; empty: none.
std::string foreign_words_help(const OwnOptions& own);

// Removes --token and its value, with a warning: nothing here downloads, and a command line is visible to every user of
// the host.
std::vector<std::string> without_token(const std::vector<std::string>& arguments);
void hide_token(char** begin, char** end);  // in this process's own command line, which other users can read

// What a command of the documents leaves to its script, and says by the options that it gives: which model, which task,
// which batch. docs/words.md lists the rows.
struct ImpliedWords {
  std::vector<std::string> arguments;  // what was given, and what follows from it
  std::vector<std::string> notes;      // what was added and why, line by line
};

// Of `shade bench`, in our words (cli/foreign_words.h). What is given, by an option or by a --config file, is never
// replaced.
ImpliedWords with_implied(std::vector<std::string> arguments);

}  // namespace shade::cli
