#include "shade/report/run_settings.h"

#include <fstream>
#include <set>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/base/visible_text.h"
#include "shade/base/without_folders.h"

namespace shade::report {
namespace {

constexpr const char* kNoSetting = "-";
constexpr size_t kLongest = 120;  // bytes of a value; a list of a thousand classes tells nobody more

std::string shown(const Json& value) {
  std::vector<std::string> parts;
  if (value.is_array())
    for (const auto& part : value) parts.push_back(part.is_string() ? part.get<std::string>() : part.dump());
  else
    parts.push_back(value.is_string() ? value.get<std::string>() : value.dump());
  return visible(without_folders(join(parts, ",")), kLongest);
}

// A value is written as in JSON (train/recipe.cpp).
void read_line(const std::string& line, std::string& section, Settings& out) {
  const auto words = trim(line);
  if (words.starts_with('[') && words.ends_with(']')) {
    section = words.substr(1, words.size() - 2);
    return;
  }
  const auto equals = words.find('=');
  if (words.starts_with('#') || equals == std::string_view::npos) return;
  const auto name = visible(text(section, ".", trim(words.substr(0, equals))), kLongest);
  if (name == "train.output") return;
  try {
    out[name] = shown(parse_json(trim(words.substr(equals + 1))));
  } catch (const Error&) {
    // not a line of shade train
  }
}

}  // namespace

Settings read_run_settings(const std::filesystem::path& folder) {
  Settings out;
  std::ifstream in(folder / "recipe.toml");
  std::string section;
  for (std::string line; std::getline(in, line);) read_line(line, section, out);
  return out;
}

Json differing_settings(const std::vector<Settings>& runs) {
  std::set<std::string> names;
  for (const auto& run : runs)
    for (const auto& [name, value] : run) names.insert(name);
  const auto value_of = [](const Settings& run, const std::string& name) {
    const auto found = run.find(name);
    return found == run.end() || found->second.empty() ? std::string(kNoSetting) : found->second;
  };
  auto out = Json::array();
  for (const auto& name : names) {
    std::set<std::string> values;
    auto all = Json::array();
    for (const auto& run : runs) {
      all.push_back(value_of(run, name));
      if (!run.empty()) values.insert(value_of(run, name));
    }
    if (values.size() > 1) out.push_back({{"setting", name}, {"values", all}});
  }
  return out;
}

}  // namespace shade::report
