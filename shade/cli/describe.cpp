#include "shade/cli/describe.h"

#include <algorithm>

#include "shade/base/field_choices.h"

namespace shade::cli {

const Field* field_named(Config* config, const std::string& name) {
  if (config == nullptr) return nullptr;
  for (const auto& field : config->fields()) {
    const auto names = field.spellings();
    if (std::find(names.begin(), names.end(), name) != names.end()) return &field;
  }
  return nullptr;
}

Description describe(const CLI::App& app, Config* config, const std::string& example) {
  Description out{.summary = app.get_description(), .example = example, .options = {}};
  for (const auto* option : app.get_options()) {
    OptionWords words{.help = option->get_description(), .is_argument = !option->nonpositional()};
    if (words.is_argument) {
      words.names = {option->get_name(true)};
    } else {
      for (const auto& name : option->get_lnames()) words.names.push_back("--" + name);
      for (const auto& name : option->get_snames()) words.names.push_back("-" + name);
      if (option->get_items_expected_max() > 0) words.value = option->get_type_name();
    }
    if (words.names.empty()) continue;
    if (const auto* field = field_named(config, words.names.front())) {
      words.section = option->get_group();
      words.choices = choices_of(*field);
      words.is_switch = field->is_switch();
    }
    // CLI11 appends what a value is checked for: "N:INT in [1 - 4096]".
    words.value = words.value.substr(0, words.value.find(':'));
    out.options.push_back(std::move(words));
  }
  return out;
}

std::vector<VerbWords> describe_all(std::span<const Verb> verbs) {
  std::vector<VerbWords> out;
  for (const auto& verb : verbs) {
    try {
      verb.run({kDescribe});
    } catch (const Description& description) {
      out.push_back({verb.name, verb.summary, description});
      continue;
    }
    throw Error(text("the verb ", verb.name, " doesn't describe its options"));
  }
  return out;
}

}  // namespace shade::cli
