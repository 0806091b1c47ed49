#include "shade/catalog/merged_runs.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "shade/base/error.h"
#include "shade/base/median.h"
#include "shade/catalog/figures.h"
#include "shade/catalog/parts.h"

namespace shade::catalog {
namespace {

std::vector<double> numbers_in(const Json& result, const char* key) {
  const auto found = result.find(key);
  if (found == result.end() || !found->is_array()) return {};
  for (const auto& one : *found)
    if (!one.is_number()) throw Error(text("'", key, "' holds ", one.dump(), "; expected numbers"));
  return found->get<std::vector<double>>();
}

// Rates and durations were of a step that took `before`.
void rescale(Json& result, double before, double after) {
  if (!(before > 0) || !(after > 0)) return;
  for (const auto& figure : kFigures) {
    const auto found = result.find(figure.key);
    if (found == result.end() || !found->is_number() || !(figure.is_rate || figure.is_duration)) continue;
    *found = found->get<double>() * (figure.is_rate ? before / after : after / before);
  }
}

void write_median(Json& result, const std::vector<double>& runs) {
  result["median_time_ms"] = median(runs);
  const auto interval = median_interval(runs);
  if (!interval) return;
  result["median_low_ms"] = interval->first;
  result["median_high_ms"] = interval->second;
}

}  // namespace

void add_median(Json& result) {
  if (result.contains("median_time_ms") || !result.contains("avg_time_ms")) return;
  const double average = number_at(result, "avg_time_ms");
  const auto runs = numbers_in(result, "run_times_ms"), steps = numbers_in(result, "times_ms");
  result["median_time_ms"] = average;
  if (!runs.empty())
    write_median(result, runs);
  else if (!steps.empty())
    result["median_time_ms"] = median(steps);
  rescale(result, average, result["median_time_ms"].get<double>());
}

std::map<std::string, std::vector<double>> own_runs_of(const Json& result) {
  std::map<std::string, std::vector<double>> out;
  if (result.contains("own_runs_ms")) {
    for (const auto& [phase, runs] : result["own_runs_ms"].items()) out[phase] = runs.get<std::vector<double>>();
    return out;
  }
  Parts parts;
  read_parts(parts, result);
  for (const auto& [phase, ms] : parts.own_ms) out[phase] = {ms};
  return out;
}

Json merged_runs(std::span<const Json> runs) {
  Json out;
  std::vector<double> times, run_times;
  std::map<std::string, std::vector<double>> own;
  double others = 0, most = 0, average_load = 0;
  for (const auto& given : runs) {
    if (given.value("failed", false)) return given;
    auto one = given;
    add_median(one);
    const auto steps = one.at("times_ms").get<std::vector<double>>();
    times.insert(times.end(), steps.begin(), steps.end());
    run_times.push_back(median(steps));
    const auto load = one.value("load", Json{{"others", 0.0}, {"average", 0.0}});
    others += load.at("others").get<double>();
    most = std::max(most, load.at("others").get<double>());
    average_load = std::max(average_load, load.at("average").get<double>());
    Parts parts;
    read_parts(parts, one);
    for (const auto& [phase, ms] : parts.own_ms) own[phase].push_back(ms);
    if (out.is_null() || one["peak_memory_mb"] > out["peak_memory_mb"]) out = std::move(one);
  }
  const double before = out["median_time_ms"].get<double>();
  write_median(out, run_times);
  rescale(out, before, out["median_time_ms"].get<double>());
  out["times_ms"] = times;
  out["run_times_ms"] = run_times;
  out["own_runs_ms"] = own;
  out["avg_time_ms"] = std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  out["repeats"] = runs.size();
  out["load"] = {
      {"others", others / static_cast<double>(runs.size())}, {"most_others", most}, {"average", average_load}};
  return out;
}

}  // namespace shade::catalog
