#include "shade/cli/describe.h"

#include <algorithm>

#include "shade/base/config.h"
#include "shade/base/effect.h"
#include "shade/base/json.h"
#include "shade/base/strings.h"

namespace shade::cli {

const Field* field_named(Config* config, const std::string& name) {
  if (config == nullptr) return nullptr;
  for (const auto& field : config->fields()) {
    const auto names = field.spellings();
    if (std::find(names.begin(), names.end(), name) != names.end()) return &field;
  }
  return nullptr;
}

namespace {

// CLI11 appends what a value is checked for: "N:INT in [1 - 4096]", "{small,full}".
void read_check(OptionWords& words, const std::string& type_name) {
  words.value = type_name.substr(0, type_name.find(':'));
  const bool whole = type_name.find("INT") != std::string::npos || words.value == "N";
  words.type = whole ? "integer" : "text";
  if (const auto at = type_name.find('['); at != std::string::npos) {
    const auto bounds = split(type_name.substr(at + 1, type_name.find(']') - at - 1), '-');
    if (bounds.size() == 2)
      std::tie(words.min, words.max) = std::pair(parse_real(trim(bounds[0])), parse_real(trim(bounds[1])));
  }
  if (const auto at = type_name.find('{'); at != std::string::npos) {
    words.choices = split(type_name.substr(at + 1, type_name.find('}') - at - 1), ',');
    words.type = "choice";
  }
}

// Of an option that is no field, its help ends in its default: "time limit per row [1h]".
std::string stated_default(const std::string& help) {
  const auto at = help.rfind(" [");
  return help.ends_with(']') && at != std::string::npos ? help.substr(at + 2, help.size() - at - 3) : std::string();
}

}  // namespace

Description describe(const CLI::App& app, Config* config, const std::string& example) {
  Description out{.summary = app.get_description(), .example = example, .options = {}, .aliases = {}};
  for (const auto* option : app.get_options()) {
    OptionWords words{.help = option->get_description(), .is_argument = !option->nonpositional()};
    if (words.is_argument) {
      words.names = {option->get_name(true)};
    }
    for (const auto& name : option->get_lnames()) words.names.push_back("--" + name);
    for (const auto& name : option->get_snames()) words.names.push_back("-" + name);
    if (words.names.empty()) continue;
    words.standard = stated_default(words.help);
    if (const auto* field = field_named(config, words.names.front())) {
      words.value = option->get_type_name();
      words.section = option->get_group();
      words.choices = choices_of(*field);
      words.is_switch = field->is_switch();
      words.type = field->type();
      words.standard = field->info().if_not_given.empty() ? field->standard() : field->info().if_not_given;
      words.min = field->info().min;
      words.max = field->info().max;
      words.needs = conditions_text(*field, *config);
    } else if (words.is_argument || option->get_items_expected_max() > 0) {
      read_check(words, option->get_type_name());
      if (words.is_argument) words.value.clear();
    } else {
      words.type = "flag";
    }
    out.options.push_back(std::move(words));
  }
  return out;
}

Json OptionWords::json() const {
  const auto first = static_cast<ptrdiff_t>(1);
  Json out{{"name", names.front()}, {"aliases", std::vector<std::string>(names.begin() + first, names.end())},
           {"type", type},          {"default", standard},
           {"choices", choices},    {"range", {{"min", min ? Json(*min) : Json()}, {"max", max ? Json(*max) : Json()}}},
           {"section", section},    {"argument", is_argument},
           {"only_with", needs},    {"help", help}};
  return out;
}

Json Description::json() const {
  Json out{{"summary", summary}, {"example", example}, {"options", Json::array()}, {"translated", Json::object()}};
  for (const auto& option : options) out["options"].push_back(option.json());
  for (const auto& [word, becomes] : aliases) out["translated"][word] = becomes;
  return out;
}

std::vector<VerbWords> describe_all(std::span<const Verb> verbs) {
  std::vector<VerbWords> out;
  for (const auto& verb : verbs) out.push_back({verb.name, verb.summary, verb.declare()->description()});
  return out;
}

}  // namespace shade::cli
