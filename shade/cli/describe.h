// The options of every verb as data, from the same declarations as --help: what --describe-options prints, and what
// shell completion and man pages are made of.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "shade/cli/verb.h"

namespace shade::cli {

// A verb that is run with this single word throws its Description instead of doing anything.
inline constexpr const char* kDescribe = "--describe-options";
inline bool asks_to_describe(const Arguments& arguments) {
  return arguments.size() == 1 && arguments.front() == kDescribe;
}

struct OptionWords {
  std::vector<std::string> names;  // with dashes, the usual one first; of an argument its name, e.g. "RECIPE"
  std::string value;               // what follows it: "FILE", "N"; empty: nothing
  std::string help;
  std::string section;               // of the configuration; empty: an option of the verb itself
  std::vector<std::string> choices;  // empty: any value
  bool is_argument = false;
  bool is_switch = false;          // its value may be left out
  std::string type;                // Field::type(), or flag: it takes no value
  std::string standard;            // what holds if it is not given
  std::optional<double> min, max;  // of a number
  std::string needs;               // what gives it an effect (base/effect.h); empty: nothing else

  Json json() const;
};

struct Description {
  std::string summary, example;
  std::vector<OptionWords> options;
  std::vector<std::pair<std::string, std::string>> aliases;  // words of other programs, and what they become

  Json json() const;
};

// The field that is spelled so on the command line; null: none, or no configuration.
const Field* field_named(Config* config, const std::string& name);

Description describe(const CLI::App& app, Config* config, const std::string& example);

// The verb's description; throws Error if it has none.
Description description_of(const Verb& verb);

struct VerbWords {
  std::string name, summary;  // as in the list of verbs
  Description description;
};
std::vector<VerbWords> describe_all(std::span<const Verb> verbs);

// shade completion bash|zsh|fish
int run_completion(std::span<const Verb> verbs, const Arguments& arguments);
std::string bash_completion(const std::vector<VerbWords>& verbs);
std::string zsh_completion(const std::vector<VerbWords>& verbs);
std::string fish_completion(const std::vector<VerbWords>& verbs);

// shade man-pages FOLDER: writes shade.1 and shade-VERB.1.
int run_man_pages(std::span<const Verb> verbs, const Arguments& arguments);
std::string man_page(const std::vector<VerbWords>& verbs);  // shade.1
std::string man_page(const VerbWords& verb);                // shade-VERB.1

}  // namespace shade::cli
