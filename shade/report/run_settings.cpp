#include "shade/report/run_settings.h"

#include <algorithm>
#include <fstream>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/base/visible_text.h"

namespace shade::report {
namespace {

constexpr const char* kNoSetting = "-";
constexpr size_t kLongest = 120;  // bytes of a value; a list of a thousand classes tells no more

// What a reader asks first. All other settings are in a last group.
struct SettingGroup {
  const char* name;
  std::vector<const char*> settings;
};
const std::vector<SettingGroup>& setting_groups() {
  static const std::vector<SettingGroup> kGroups{
      {"Model",
       {"model.model", "model.task", "model.weights", "model.from_scratch", "model.dtype", "model.lora_rank",
        "model.lora_alpha", "model.lora_targets"}},
      {"Data",
       {"data.data_folder", "train.synthetic", "data.tokenizer", "data.packing", "data.classes", "train.seq_length",
        "train.eval_rate", "train.eval_records", "train.test_folder"}},
      {"Steps", {"train.steps", "train.batch_size", "train.micro_batch", "dp.sampler", "train.seed"}},
      {"Optimizer",
       {"optim.optimizer", "optim.lr", "optim.schedule", "optim.warmup_steps", "optim.weight_decay",
        "optim.grad_clip"}},
      {"Privacy",
       {"dp.dp", "dp.max_grad_norm", "dp.sigma", "dp.target_epsilon", "dp.max_epsilon", "dp.delta", "dp.clip_style",
        "dp.privacy_unit", "dp.accountant"}},
      {"Sharding", {"shard.shard", "model.checkpointing", "train.memory_limit"}},
  };
  return kGroups;
}

std::string shown(const Json& value) {
  std::vector<std::string> parts;
  if (value.is_array())
    for (const auto& part : value) parts.push_back(part.is_string() ? part.get<std::string>() : part.dump());
  else
    parts.push_back(value.is_string() ? value.get<std::string>() : value.dump());
  for (auto& part : parts) part = without_folders(part);
  return visible(join(parts, ", "), kLongest);
}

// A value is written as in JSON (train/spec/recipe.cpp). What follows from another setting is a comment there:
// "# found for target_epsilon: sigma = 0.74".
void read_line(const std::string& line, std::string& section, Settings& out) {
  auto words = trim(line);
  if (words.starts_with('[') && words.ends_with(']')) {
    section = words.substr(1, words.size() - 2);
    return;
  }
  std::string origin;
  if (words.starts_with('#')) {
    const auto colon = words.find(": ");
    if (colon == std::string_view::npos) return;
    origin = text(" (", visible(trim(words.substr(1, colon - 1)), kLongest), ")");
    words = trim(words.substr(colon + 2));
  }
  const auto equals = words.find('=');
  if (equals == std::string_view::npos) return;
  const auto name = visible(text(section, ".", trim(words.substr(0, equals))), kLongest);
  if (name == "train.output") return;
  try {
    out[name] = shown(parse_json(trim(words.substr(equals + 1)))) + origin;
  } catch (const Error&) {
    // not a line of shade train
  }
}

Json values_of(const std::vector<Settings>& runs, const std::string& name) {
  auto out = Json::array();
  for (const auto& run : runs) {
    const auto found = run.find(name);
    out.push_back(found == run.end() || found->second.empty() ? std::string(kNoSetting) : found->second);
  }
  return out;
}

std::set<std::string> setting_names(const std::vector<Settings>& runs) {
  std::set<std::string> out;
  for (const auto& run : runs)
    for (const auto& [name, value] : run) out.insert(name);
  return out;
}

}  // namespace

Settings read_run_settings(const std::filesystem::path& folder, const std::set<std::string>& without_effect) {
  Settings out;
  std::ifstream in(folder / "recipe.toml");
  std::string section;
  for (std::string line; std::getline(in, line);) read_line(line, section, out);
  for (const auto& name : without_effect)
    if (const auto found = out.find(name); found != out.end()) found->second = kNoEffect;
  return out;
}

Json differing_settings(const std::vector<Settings>& runs) {
  std::set<std::string> important;
  for (const auto& [group, names] : setting_groups()) important.insert(names.begin(), names.end());
  auto out = Json::array();
  for (const auto& name : setting_names(runs)) {
    const auto all = values_of(runs, name);
    std::set<std::string> values;
    for (size_t i = 0; i < runs.size(); ++i)
      if (!runs[i].empty() && (important.contains(name) || all[i] != kNoEffect))
        values.insert(all[i].get<std::string>());
    if (values.size() > 1) out.push_back({{"setting", name}, {"values", all}});
  }
  return out;
}

Json grouped_settings(const std::vector<Settings>& runs) {
  auto left = setting_names(runs);
  auto out = Json::array();
  const auto add = [&](const std::string& group, const auto& names) {
    auto settings = Json::array();
    for (const auto& name : names)
      if (left.erase(name) > 0) settings.push_back({{"setting", name}, {"values", values_of(runs, name)}});
    if (!settings.empty()) out.push_back({{"group", group}, {"settings", settings}});
  };
  for (const auto& [group, names] : setting_groups()) add(group, names);
  add("All other settings", std::set<std::string>(left));
  return out;
}

}  // namespace shade::report
