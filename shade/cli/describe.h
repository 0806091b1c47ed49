// The options of every verb as data, from the same declarations as --help: what --describe-options prints, and what
// shell completion and man pages are made of.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "shade/cli/verb.h"

namespace shade::cli {

inline constexpr const char* kDescribe = "--describe-options";  // the only word of such a command

// The field that is spelled so on the command line; null: none, or no configuration.
const Field* field_named(Config* config, const std::string& name);

Description describe(const CLI::App& app, Config* config, const std::string& example);

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
