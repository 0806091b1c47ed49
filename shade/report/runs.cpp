#include "shade/report/runs.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <fstream>
#include <limits>

#include "shade/base/error.h"
#include "shade/base/terminal.h"
#include "shade/base/units.h"
#include "shade/base/utc.h"
#include "shade/base/visible_text.h"
#include "shade/report/palette.h"
#include "shade/report/run_settings.h"

namespace shade::report {
namespace {

constexpr const char* kNoCurve = "-";

std::filesystem::path metrics_of(const std::filesystem::path& folder) { return folder / "metrics.jsonl"; }

// JSON has no NaN: a loss that is not finite was written as null.
double number(const Json& json, const char* key) {
  const auto& value = json.at(key);
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!value.is_number()) throw Error(text("'", key, "' is ", value.dump(), "; expected a number"));
  return value.get<double>();
}

void add_line(TrainingRun& run, const Json& line) {
  if (!line.is_object() || !line.contains("step") || !line["step"].is_number_integer())
    throw Error("expected an object with the whole number 'step'");
  const auto step = line["step"].get<int64_t>();
  const bool is_private = line.contains("not_private") && line["not_private"].is_object();
  Json own = line;
  if (is_private) own.update(line["not_private"]);
  if (own.contains("test_loss")) return;  // of the end, no part of a curve
  const bool says_spent = line.contains("epsilon") || line.contains("no_epsilon");
  if (!own.contains("loss") && !own.contains("eval_loss") && !says_spent)
    throw Error("it has neither 'loss' nor 'eval_loss' nor 'epsilon'");
  if (step < run.steps()) throw Error(text("step ", step, " comes after step ", run.steps()));
  run.is_private = run.is_private || is_private;
  if (own.contains("loss")) run.loss[step] = number(own, "loss");
  if (own.contains("eval_loss")) run.held_out[step] = number(own, "eval_loss");
  const bool without = line.contains("no_epsilon") || (own.contains("loss") && !line.contains("epsilon"));
  const bool plain = !is_private && own.contains("loss");
  if (plain && !run.first_plain) run.first_plain = step;
  if (is_private && without && !run.first_without) run.first_without = step;
  if (!line.contains("epsilon")) return;
  run.epsilon[step] = number(line, "epsilon");
  run.delta = line.contains("delta") ? number(line, "delta") : 0;
  run.void_epsilon = line.contains("epsilon_void");
  const auto unit = line.value("privacy_unit", "record");
  run.unit = unit == "record" ? "" : unit;
}

TrainingRun read_run(const std::filesystem::path& folder) {
  const auto file = metrics_of(folder);
  std::ifstream in(file);
  if (!in) throw Error(text("cannot read ", file.string(), "; may you read it?"));
  TrainingRun run;
  int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    try {
      add_line(run, parse_json(line));
    } catch (const std::exception& fault) {
      throw Error(text(file.string(), ":", number, ": not a line that shade train writes: ", fault.what(),
                       ". If a crash cut it, delete the line"));
    }
  }
  SHADE_REQUIRE(number > 0, file.string(), " is empty: no step was reported yet");
  if (run.is_private && run.first_plain)
    run.first_without = std::min(*run.first_plain, run.first_without.value_or(*run.first_plain));
  return run;
}

// Host and command stay with the owner of a private run.
void read_environment(TrainingRun& run, const std::filesystem::path& folder) {
  const auto file = folder / "environment.json";
  if (!std::filesystem::exists(file)) return;  // an earlier version, or a program that trains by the library
  add_settings(run.environment, read_json(file));
  if (run.is_private || std::filesystem::exists(folder / "ledger"))
    for (const auto* name : {"host", "command"}) run.environment.erase(name);
}

std::string written_at(const std::filesystem::path& file) {
  struct stat facts{};
  return ::stat(file.c_str(), &facts) == 0 ? utc_text(facts.st_mtime) : "";
}

std::string name_of(const std::filesystem::path& folder) {
  const auto whole = std::filesystem::absolute(folder / "").lexically_normal();  // ends with a separator
  return whole.parent_path().filename().string();
}

void name_runs(std::vector<TrainingRun>& runs, const std::vector<std::filesystem::path>& folders) {
  std::map<std::string, int> uses;
  for (const auto& folder : folders) ++uses[name_of(folder)];
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto name = name_of(folders[i]);
    runs[i].name = uses[name] == 1 ? name : folders[i].string();
  }
}

std::string last_of(const Curve& curve) { return curve.empty() ? kNoCurve : significant(curve.rbegin()->second, 4); }

std::string lowest_of(const Curve& curve) {
  const auto lowest = std::min_element(curve.begin(), curve.end(), [](const auto& a, const auto& b) {
    return !std::isnan(a.second) && (std::isnan(b.second) || a.second < b.second);
  });
  return lowest == curve.end() ? kNoCurve : text(significant(lowest->second, 4), " at step ", lowest->first);
}

Json differences_of(const std::vector<TrainingRun>& runs) {
  std::vector<Settings> settings;
  for (const auto& run : runs) settings.push_back(run.settings);
  return differing_settings(settings);
}

// Empty: they don't differ, or don't say.
std::string table_of_differences(const std::vector<TrainingRun>& runs) {
  const auto differences = differences_of(runs);
  if (differences.empty()) return "";
  std::vector<std::string> header{"setting"};
  for (const auto& run : runs) header.push_back(visible(run.name));
  Table table(header);
  for (const auto& one : differences) {
    std::vector<std::string> row{one["setting"].get<std::string>()};
    for (const auto& value : one["values"]) row.push_back(value.get<std::string>());
    table.add(row);
  }
  return "\nsettings that differ:\n" + table.str();
}

}  // namespace

int64_t TrainingRun::steps() const {
  const auto last = [](const Curve& curve) { return curve.empty() ? 0 : curve.rbegin()->first; };
  return std::max(last(loss), last(held_out));
}

std::string TrainingRun::privacy() const {
  if (!is_private) return "";
  if (epsilon.empty()) return "private, no epsilon";
  if (first_without) return text("private, no epsilon since step ", *first_without);
  const auto spent = text("epsilon ", rounded_up(epsilon.rbegin()->second), unit.empty() ? "" : text(" per ", unit));
  return void_epsilon ? spent + ", void: seeded" : text(spent, " at delta ", delta);
}

bool is_training_run(const std::filesystem::path& folder) { return std::filesystem::exists(metrics_of(folder)); }

std::vector<TrainingRun> read_training_runs(const std::vector<std::filesystem::path>& folders) {
  std::vector<TrainingRun> runs;
  for (const auto& folder : folders) {
    SHADE_REQUIRE(is_training_run(folder), folder.string(),
                  " has no metrics.jsonl; expected run directories of shade train, if several are given");
    runs.push_back(read_run(folder));
    runs.back().date = written_at(metrics_of(folder));
    read_environment(runs.back(), folder);
    runs.back().settings = read_run_settings(folder);
  }
  name_runs(runs, folders);
  return runs;
}

std::string summary_of(const std::vector<TrainingRun>& runs) {
  Table table({"run", "steps", "loss", "held-out loss", "lowest held-out loss", "privacy"});
  for (const auto& run : runs)
    table.add({run.name, std::to_string(run.steps()), last_of(run.loss), last_of(run.held_out), lowest_of(run.held_out),
               run.is_private ? run.privacy() : "none"});
  return table.str() +
         "\nloss: of the last reported batch. held-out loss: of the last evaluation. epsilon: at the last reported "
         "step; "
         "the ledger of the run counts those after it too.\n" +
         table_of_differences(runs);
}

Json json_of(const std::vector<TrainingRun>& runs) {
  const auto points = [](const Curve& curve) {
    auto out = Json::array();
    for (const auto& [step, value] : curve) out.push_back({step, value});
    return out;
  };
  Json out{{"runs", Json::array()}};
  for (const auto& run : runs) {
    out["runs"].push_back({{"name", run.name},
                           {"colour", colour_of_run(out["runs"].size())},
                           {"privacy", run.privacy()},
                           {"date", run.date},
                           {"steps", run.steps()},
                           {"private", run.is_private},
                           {"epsilon_void", run.void_epsilon},
                           {"no_epsilon_since", run.first_without ? Json(*run.first_without) : Json()},
                           {"delta", run.delta},
                           {"loss", points(run.loss)},
                           {"held_out_loss", points(run.held_out)},
                           {"epsilon", points(run.epsilon)}});
  }
  out["differing_settings"] = differences_of(runs);
  return out;
}

}  // namespace shade::report
