#include "shade/report/row_names.h"

#include <algorithm>
#include <set>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/base/units.h"

namespace shade::report {
namespace {

std::string words_for(const std::string& name, const std::string& value) {
  if (name == "shard" || name == "model" || name == "dtype") return value;
  if (name == "parameters") return value + " M parameters";
  if (name == "batch_size") return "batch " + value;
  if (name == "ranks") return value + (value == "1" ? " rank" : " ranks");
  auto spoken = name;
  std::replace(spoken.begin(), spoken.end(), '_', ' ');
  return spoken + " " + value;
}

using Values = std::map<std::string, std::set<std::string>>;
void collect(Values& into, const Settings& settings) {
  for (const auto& [name, value] : settings) into[name].insert(value);
}

// `replicate` says nothing beside ranks and strategy; a shape is told by what differs in this folder.
std::vector<std::pair<std::string, std::string>> differing(const Settings& settings, const Values& values) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto* first : {"model", "shard", "ranks", "batch_size"})
    if (settings.contains(first) && values.at(first).size() > 1)
      out.emplace_back(first, words_for(first, settings.at(first)));
  for (const auto& [name, value] : settings) {
    if (name == "model" || name == "shard" || name == "ranks" || name == "batch_size" || name == "replicate") continue;
    if (values.at(name).size() > 1) out.emplace_back(name, words_for(name, value));
  }
  return out;
}

}  // namespace

void name_rows(const std::vector<ResultRow*>& rows) {
  Values shapes, methods;
  std::set<int64_t> lengths;
  for (const auto* row : rows) {
    collect(shapes, row->settings);
    if (row->planned_for.empty()) shapes["planned_for"].insert("");
    if (row->is_private()) collect(methods, row->privacy);
    if (row->seq_length > 0) lengths.insert(row->seq_length);
  }
  std::map<std::string, int> seen;
  for (auto* row : rows) {
    row->shape = differing(row->settings, shapes);
    if (lengths.size() > 1 && row->seq_length > 1)
      row->shape.emplace(row->shape.begin(), "seq", words_for("seq", std::to_string(row->seq_length)));
    if (row->is_private())
      for (auto& word : differing(row->privacy, methods)) row->shape.push_back(std::move(word));
    if (const int times = ++seen[row->mode + row->shape_without({})]; times > 1)
      row->shape.emplace_back("run", text("run ", times));
    row->group = row->shape_without({});
    row->name = row->mode + (row->group.empty() ? "" : ", " + row->group);
  }
}

std::string common_to(const std::vector<ResultRow*>& rows) {
  Values values;
  for (const auto* row : rows) {
    for (const auto* name : {"shard", "ranks", "batch_size", "dtype"})
      if (const auto found = row->settings.find(name); found != row->settings.end()) values[name].insert(found->second);
    if (row->model != "?") values["model"].insert(row->model_name);
    values["preset"].insert(row->preset);
    values["planned_for"].insert(row->planned_for);
    if (row->parameters) values["parameters"].insert(significant(*row->parameters / 1e6));
    if (row->seq_length > 1) values["seq"].insert(std::to_string(row->seq_length));
  }
  std::vector<std::string> out;
  for (const auto* name :
       {"preset", "model", "parameters", "seq", "batch_size", "ranks", "shard", "dtype", "planned_for"})
    if (values[name].size() == 1 && !values[name].begin()->empty() && *values[name].begin() != "none")
      out.push_back(words_for(name, *values[name].begin()));
  return join(out, ", ");
}

}  // namespace shade::report
