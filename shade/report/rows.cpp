#include "shade/report/rows.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <set>
#include <tuple>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/base/units.h"
#include "shade/catalog/merged_runs.h"
#include "shade/catalog/methods.h"
#include "shade/catalog/strategies.h"
#include "shade/report/row_names.h"

namespace shade::report {
namespace {

// Files of shade plan --json: planned rows beside measured ones, and what --advise tried.

using catalog::number_at;

std::string word_in(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

void add_row(Results& results, Json json, const Json& plan, const std::string& file) {
  try {
    const bool failed = json.contains("failed") && json["failed"] == true;
    if (!failed && !json.contains("avg_time_ms")) {
      results.foreign.push_back(
          {file, text(word_in(json, "name"), ": a plan without times; make it with --device-profile")});
      return;
    }
    if (plan.contains("environment")) json["environment"] = plan["environment"];
    auto row = row_of(json, file);
    row.planned_for = word_in(plan, "device_profile");
    if (row.planned_for.empty()) row.planned_for = "?";
    row.settings["planned_for"] = row.planned_for;
    if (json.contains("fits") && json["fits"].is_boolean()) row.fits = json["fits"].get<bool>();
    (row.failed() ? results.failures : results.rows).push_back(std::move(row));
  } catch (const std::exception& fault) {
    results.broken.push_back({file, fault.what()});
  }
}

Advice advice_of(const Json& plan, const std::string& file) {
  Advice out{.file = file, .recommended = "", .limit_mb = number_at(plan, "memory_limit_mb")};
  if (plan.contains("recommended")) out.recommended = word_in(plan["recommended"], "name");
  out.timed = plan.contains("device_profile");
  for (const auto& row : plan["rows"]) {
    if (word_in(row, "verdict") == "refused") continue;
    out.rows.push_back({.name = word_in(row, "name"),
                        .verdict = word_in(row, "verdict"),
                        .reason = word_in(row, "reason"),
                        .peak_mb = number_at(row, "peak_memory_mb"),
                        .time = number_at(row, out.timed ? "ms_per_sample" : "flops_per_sample"),
                        .cost = number_at(row, out.timed ? "device_ms_per_sample" : "sent_bytes_per_sample")});
  }
  return out;
}

bool is_plan(const Json& json) {
  if (!json.is_object() || !json.contains("rows") || !json["rows"].is_array() || !json.contains("environment"))
    return false;
  return json["environment"].is_object() && word_in(json["environment"], "command").starts_with("shade plan ");
}

// Its rows, and its advice. Rows without a time (no device profile was named) are listed as skipped, those that are no
// rows as broken.
void add_plan(Results& results, const Json& plan, const std::string& file) {
  if (!plan.contains("memory_limit_mb")) {
    for (const auto& row : plan["rows"]) add_row(results, row, plan, file);
    return;
  }
  results.advice.push_back(advice_of(plan, file));
  if (results.advice.back().timed && plan.contains("recommended") && plan["recommended"].contains("plan"))
    add_row(results, plan["recommended"]["plan"], plan, file);
}

using catalog::number_at;
using catalog::number_if;

// Of a word among the rows of a table; behind all of them: in none.
template <class Row, size_t N>
size_t place(const Row (&rows)[N], const std::string& word) {
  const auto* row = catalog::find_row<Row>(rows, word);
  return row == nullptr ? N : static_cast<size_t>(row - rows);
}

double number_or(const Json& json, const char* key, double otherwise) {
  return number_if(json, key).value_or(otherwise);
}
int64_t whole_or(const Json& json, const char* key, int64_t otherwise) {
  const double value = number_or(json, key, static_cast<double>(otherwise));
  if (!(std::abs(value) <= 0x1p53)) throw Error(text("'", key, "' is ", value, "; expected a whole number"));
  return static_cast<int64_t>(value);
}
std::string word_or(const Json& json, const char* key, std::string otherwise) {
  if (!json.contains(key)) return otherwise;
  if (!json[key].is_string()) throw Error(text("'", key, "' is ", json[key].dump(), "; expected a word"));
  return json[key].get<std::string>();
}

// What says nothing about the shape of the work.
bool is_about_measuring(const std::string& name) {
  static const std::set<std::string> kNames{"seq_length", "num_iter", "warmup_iter", "trace", "tensorboard",   "seed",
                                            "peers",      "dp",       "noise_seed",  "work",  "offload_folder"};
  return kNames.contains(name);
}

}  // namespace

void add_settings(Settings& to, const Json& section) {
  if (!section.is_object()) return;
  for (const auto& [name, value] : section.items())
    if (!is_about_measuring(name) && !value.is_structured())
      to[name] = value.is_string() ? value.get<std::string>() : value.dump();
}

namespace {

// A row that failed may not say all: what it doesn't say is no value.
void read_settings(ResultRow& row, const Json& json) {
  row.settings = {{"shard", row.shard}};
  if (row.model != "?") row.settings["model"] = row.model;
  if (row.batch_size > 0) row.settings["batch_size"] = std::to_string(row.batch_size);
  if (row.ranks > 0) row.settings["ranks"] = std::to_string(row.ranks);
  if (!json.contains("config") || !json["config"].is_object()) return;
  const auto& config = json["config"];
  for (const auto* section : {"model", "bench", "size", "shard", "optim"})
    if (config.contains(section)) add_settings(row.settings, config[section]);
  for (const auto* section : {"dp", "privacy"})
    if (config.contains(section)) add_settings(row.privacy, config[section]);
}

// What other programs wrote under other keys, under ours.
void rename_keys(Json& json) {
  if (!json.contains("peak_memory_mb") && json.contains("peak_memory_gb"))
    json["peak_memory_mb"] = number_at(json, "peak_memory_gb") * 1024;
  catalog::add_median(json);
}

void read_figures(ResultRow& row, const Json& json) {
  catalog::read_figures(row, json);
  row.fastest_ms = row.slowest_ms = row.time_ms;
  if (const auto times = json.find("times_ms"); times != json.end() && times->is_array() && !times->empty()) {
    const auto all = times->get<std::vector<double>>();
    row.fastest_ms = *std::min_element(all.begin(), all.end());
    row.slowest_ms = *std::max_element(all.begin(), all.end());
  }
  for (auto* limit : {&row.low_ms, &row.high_ms})
    if (*limit && !(**limit > 0)) throw Error("the interval of 'median_time_ms' is not positive");
  if (json.contains("memory_by_rank") && json["memory_by_rank"].is_array())
    for (const auto& rank : json["memory_by_rank"]) row.rank_peaks_mb.push_back(number_at(rank, "peak_memory_mb"));
  catalog::read_parts(row, json);
}

void read_snapshots(ResultRow& row, const Json& json) {
  if (!json.contains("snapshots") || !json["snapshots"].is_array()) return;
  for (const auto& snapshot : json["snapshots"]) {
    if (whole_or(snapshot, "rank", 0) != 0) continue;
    double sum = 0;  // other programs write categories only
    for (const auto& [name, value] : row.breakdown_mb) sum += number_or(snapshot, name.c_str(), 0);
    const double now = number_or(snapshot, "allocated_mb", sum);
    row.snapshots.push_back({.stage = word_or(snapshot, "stage", "?"),
                             .allocated_mb = now,
                             .highest_mb = number_or(snapshot, "max_allocated_mb", now)});
  }
}

void read_timeline(ResultRow& row, const Json& json) {
  if (json.contains("peak_owner") && json["peak_owner"].is_object())
    row.peak_owner = word_or(json["peak_owner"], "words", "");
  row.timeline = catalog::timeline_in(json);
}

const Json& section_of(const Json& json, const char* name) {
  static const Json kNothing = Json::object();
  if (!json.contains("config") || !json["config"].is_object()) return kNothing;
  return json["config"].contains(name) && json["config"][name].is_object() ? json["config"][name] : kNothing;
}

// What a failed row was to be is known from its configuration, or from the words it was started with.
Json with_arguments(const Json& json) {
  static const std::map<std::string, const char*> kKeys{
      {"--model", "model"},           {"--shard", "shard"},           {"--dp", "dp"},
      {"--seq-length", "seq_length"}, {"--batch-size", "batch_size"}, {"--ranks", "num_ranks"}};
  Json out = json;
  if (!json.contains("arguments") || !json["arguments"].is_array()) return out;
  const auto words = json["arguments"].get<std::vector<std::string>>();
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const auto key = kKeys.find(words[i]);
    if (key == kKeys.end() || out.contains(key->second)) continue;
    const auto whole = parse_integer(words[i + 1]);
    out[key->second] = whole ? Json(*whole) : Json(words[i + 1]);
  }
  return out;
}

// A row that failed before it had a world says its ranks in its key only.
int64_t ranks_in(const std::string& log_key) {
  const auto at = log_key.find("_ranks");
  if (at == std::string::npos) return 0;
  return std::max<int64_t>(0, std::strtoll(log_key.c_str() + at + 6, nullptr, 10));
}

// What a result's model is: results of other programs have its name alone.
std::string model_name_of(const Json& json, const std::string& model) {
  const bool known = json.contains("config") && json["config"].is_object();
  return known ? word_or(json["config"], "model_name", model) : model;
}

std::string preset_of(const Json& json) {
  if (!json.contains("preset") || !json["preset"].is_object()) return "";
  return text(word_or(json["preset"], "name", "?"), " at scale ", word_or(json["preset"], "scale", "?"));
}

auto order_of(const ResultRow& row) {
  return std::tuple(row.model, row.seq_length, row.ranks, place(catalog::kStrategies, row.shard), row.batch_size,
                    row.grad_accum, place(catalog::kMethods, row.method), row.mode, row.file);
}

void order_and_name(Results& results) {
  std::vector<ResultRow*> all;
  for (auto* rows : {&results.rows, &results.failures}) {
    std::sort(rows->begin(), rows->end(), [](const auto& a, const auto& b) { return order_of(a) < order_of(b); });
    for (auto& row : *rows) all.push_back(&row);
  }
  // Where models differ, rows are told apart by what each is; the sizes of one model are settings of their own.
  std::set<std::string> models;
  for (const auto* row : all) models.insert(row->model);
  if (models.size() > 1)
    for (auto* row : all) row->settings["model"] = row->model_name;
  name_rows(all);
  results.common = common_to(all);
}

void read_file(Results& results, const std::string& file, const std::function<Json()>& content) {
  try {
    const auto json = content();
    if (is_plan(json)) return add_plan(results, json, file);
    if (!is_result(json)) {
      results.foreign.push_back(
          {file, "not a result of shade bench or shade plan (no 'mode' with 'avg_time_ms', no 'failed')"});
      return;
    }
    auto row = row_of(json, file);
    (row.failed() ? results.failures : results.rows).push_back(std::move(row));
  } catch (const std::exception& fault) {
    results.broken.push_back({file, fault.what()});
  }
}

// The runs of a matrix of shade compare, repeats/NAME_0.json and so on, merged as shade compare would have at its end.
void read_repeats(Results& results, const std::filesystem::path& folder) {
  std::map<std::string, std::map<int64_t, std::filesystem::path>> rows;  // by name and round
  std::error_code absent;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "repeats", absent)) {
    const auto stem = entry.path().stem().string();
    const auto line = stem.rfind('_');
    if (line == std::string::npos || !entry.is_regular_file() || entry.path().extension() != ".json") continue;
    if (const auto round = parse_integer(stem.substr(line + 1))) rows[stem.substr(0, line)][*round] = entry.path();
  }
  for (const auto& [name, files] : rows) {
    const auto file = name + "_result.json";
    if (std::filesystem::exists(folder / file)) continue;
    ++results.unfinished;
    read_file(results, file, [&runs_of_row = files] {
      std::vector<Json> runs;
      for (const auto& [round, path] : runs_of_row) {
        runs.push_back(read_json(path));
        if (!is_result(runs.back())) throw Error(text(path.filename(), " is not a result of shade bench"));
      }
      return catalog::merged_runs(runs);
    });
  }
}

}  // namespace

std::string ResultRow::shape_without(const std::vector<std::string>& left_out) const {
  std::vector<std::string> words;
  for (const auto& [setting, word] : shape)
    if (std::find(left_out.begin(), left_out.end(), setting) == left_out.end()) words.push_back(word);
  return join(words, ", ");
}

double Results::largest_peak_mb() const {
  double out = 0;
  for (const auto& row : rows) out = std::max(out, row.peak_mb);
  return out;
}

std::string Results::throughput_unit() const {
  int64_t longest = 0;
  for (const auto& row : rows) longest = std::max(longest, row.seq_length);
  return std::string(catalog::throughput_unit(longest));
}

std::string Results::baseline() const {
  std::set<std::string> words;
  for (const auto& row : rows)
    if (!row.is_private()) words.insert(row.mode);
  const bool one = words.size() == 1 && catalog::find_row<catalog::MethodInfo>(catalog::kMethods, *words.begin());
  return one ? *words.begin() : catalog::mode_of("none");
}

bool Results::all_planned() const {
  return !rows.empty() &&
         std::none_of(rows.begin(), rows.end(), [](const auto& row) { return row.planned_for.empty(); });
}

namespace {

bool any_interval(const Results& results) {
  return std::any_of(results.rows.begin(), results.rows.end(), [](const auto& row) { return row.interval_ms(); });
}

}  // namespace

std::pair<double, double> Results::range_ms(const ResultRow& row) const {
  if (any_interval(*this)) return row.interval_ms().value_or(std::pair(row.time_ms, row.time_ms));
  return {row.fastest_ms, row.slowest_ms};
}

std::string Results::range_text() const {
  return any_interval(*this) ? "99 % interval of the median" : "fastest to slowest step";
}

const ResultRow* Results::without_privacy(const ResultRow& row) const {
  for (const auto& other : rows)
    if (!other.is_private() && other.seq_length == row.seq_length && other.settings == row.settings) return &other;
  return nullptr;
}

bool is_result(const Json& json) {
  if (!json.is_object()) return false;
  if (json.contains("failed") && json["failed"] == true) return true;
  return (json.contains("mode") || json.contains("experiment")) && json.contains("avg_time_ms");
}

ResultRow row_of(const Json& given, const std::string& file) {
  const bool failed = given.contains("failed") && given["failed"] == true;
  auto json = failed ? with_arguments(given) : given;
  // Before 0.2 the model was in `bench`, and `dp` was called `privacy`.
  const auto &model = section_of(json, "model"), &bench = section_of(json, "bench"), &shard = section_of(json, "shard"),
             &dp = section_of(json, "dp"), &privacy = section_of(json, "privacy");
  ResultRow row;
  row.file = file;
  row.log_key = word_or(json, "log_key", "");
  row.model = word_or(json, "model", word_or(model, "model", word_or(bench, "model", "?")));
  row.model_name = model_name_of(json, row.model);
  row.preset = preset_of(json);
  row.shard = word_or(json, "shard", word_or(shard, "shard", "none"));
  const auto method = word_or(json, "dp", word_or(dp, "dp", word_or(privacy, "dp", failed ? "none" : "?")));
  row.mode = word_or(json, "mode", word_or(json, "experiment", catalog::mode_of(method)));
  row.method = catalog::method_of(method == "?" ? row.mode : method);
  row.seq_length = whole_or(json, "seq_length", whole_or(bench, "seq_length", 0));
  row.batch_size = whole_or(json, "batch_size", whole_or(bench, "batch_size", 0));
  row.grad_accum = whole_or(bench, "grad_accum", 1);
  row.ranks = whole_or(json, "num_ranks", whole_or(json, "num_gpus", ranks_in(row.log_key)));
  read_settings(row, json);
  if (json.contains("environment")) add_settings(row.environment, json["environment"]);
  if (failed) {
    row.failure = word_or(json, "reason", "no reason was written");
    return row;
  }
  rename_keys(json);
  read_figures(row, json);
  row.ratio = ratio_in(json);
  read_snapshots(row, json);
  read_timeline(row, json);
  return row;
}

Results read_results(const std::filesystem::path& folder) {
  const bool one = std::filesystem::is_regular_file(folder);
  SHADE_REQUIRE(one || std::filesystem::is_directory(folder), folder,
                " is not a folder; expected one with the JSON files of shade bench, compare or plan, one such file, or "
                "a run of shade train");
  std::vector<std::filesystem::path> files;
  if (one) files.push_back(folder);
  for (const auto& entry : one ? std::filesystem::directory_iterator() : std::filesystem::directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  Results results;
  for (const auto& file : files) read_file(results, file.filename().string(), [&] { return read_json(file); });
  if (!one) read_repeats(results, folder);
  if (results.rows.empty() && results.failures.empty() && results.advice.empty()) {
    std::string why = text("no results in ", folder, " (", files.size(),
                           " JSON files), and no metrics.jsonl of shade train; write some with shade bench ... --json ",
                           folder / "NAME.json");
    for (const auto* skipped : {&results.foreign, &results.broken})
      for (const auto& [file, reason] : *skipped) why += text("\n  ", file, ": ", reason);
    throw UsageError(why);
  }
  order_and_name(results);
  return results;
}

std::vector<std::pair<std::string, std::string>> methods_of(const std::vector<ResultRow>& rows) {
  std::map<std::string, std::set<std::string>> modes;
  for (const auto& row : rows) modes[row.method].insert(row.mode);
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& [method, words] : modes) out.emplace_back(method, words.size() == 1 ? *words.begin() : method);
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    return std::tuple(place(catalog::kMethods, a.first), a.first) <
           std::tuple(place(catalog::kMethods, b.first), b.first);
  });
  return out;
}

}  // namespace shade::report
