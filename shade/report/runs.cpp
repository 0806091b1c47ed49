#include "shade/report/runs.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <fstream>
#include <limits>

#include "shade/base/error.h"
#include "shade/base/units.h"
#include "shade/base/utc.h"
#include "shade/report/run_settings.h"

namespace shade::report {
namespace {

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
  run.is_private = run.is_private || is_private;
  if (own.contains("test_loss")) {  // of the end, no part of a curve
    run.test["loss"] = number(own, "test_loss");
    for (const auto& score : kScores)
      if (const auto key = text("test_", score.key); own.contains(key)) run.test[score.key] = number(own, key.c_str());
    return;
  }
  const bool says_spent = line.contains("epsilon") || line.contains("no_epsilon");
  if (!own.contains("loss") && !own.contains("eval_loss") && !says_spent)
    throw Error("it has neither 'loss' nor 'eval_loss' nor 'epsilon'");
  if (step < run.steps()) throw Error(text("step ", step, " comes after step ", run.steps()));
  if (own.contains("loss")) run.loss[step] = number(own, "loss");
  if (own.contains("eval_loss")) run.held_out[step] = number(own, "eval_loss");
  for (const auto& score : kScores)
    if (const auto key = text("eval_", score.key); own.contains(key))
      run.scores[score.key][step] = number(own, key.c_str());
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

// By the recipe; of a run without one, by the scores that its evaluations have.
std::string task_of(const TrainingRun& run) {
  if (const auto stated = run.settings.find("model.task"); stated != run.settings.end() && stated->second != "auto")
    return stated->second;
  const auto has = [&](const char* score) { return run.scores.contains(score) || run.test.contains(score); };
  return has("accuracy") ? "classify" : has("perplexity") ? "lm" : "";
}

std::string written_at(const std::filesystem::path& file) {
  struct stat facts{};
  return ::stat(file.c_str(), &facts) == 0 ? utc_text(facts.st_mtime) : "";
}

std::filesystem::path whole_path(const std::filesystem::path& folder) {
  return std::filesystem::absolute(folder / "").lexically_normal().parent_path();  // without a separator at the end
}

// "y/z" of "/x/y/z", for a length of 2.
std::string tail_of(const std::filesystem::path& whole, size_t length) {
  std::filesystem::path out;
  auto left = whole.relative_path();
  for (; length > 0 && left.has_filename(); --length) {
    out = out.empty() ? left.filename() : left.filename() / out;
    left = left.parent_path();
  }
  return out.string();
}

// As few folders as tell two runs of one name apart: a page is shared, and whole paths tell of a machine.
void name_runs(std::vector<TrainingRun>& runs, const std::vector<std::filesystem::path>& folders) {
  std::vector<std::filesystem::path> paths;
  for (const auto& folder : folders) paths.push_back(whole_path(folder));
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto is_taken = [&](size_t length) {
      return std::any_of(paths.begin(), paths.end(), [&](const auto& other) {
        return other != paths[i] && tail_of(other, length) == tail_of(paths[i], length);
      });
    };
    size_t length = 1;
    while (is_taken(length)) ++length;
    runs[i].name = tail_of(paths[i], length);
  }
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
  if (void_epsilon) return spent + ", void: seeded";
  // Against a reader of all runs that share the data ledger only its cap holds.
  return text(spent, " at delta ", delta, has_data_ledger() ? " (this run alone)" : "");
}

bool TrainingRun::has_data_ledger() const {
  const auto named = settings.find("dp.data_ledger");
  return named != settings.end() && !named->second.empty() && named->second != kNoEffect;
}

bool is_training_run(const std::filesystem::path& folder) { return std::filesystem::exists(metrics_of(folder)); }

std::vector<TrainingRun> read_training_runs(const std::vector<std::filesystem::path>& folders,
                                            const std::vector<RunDetails>& details) {
  SHADE_CHECK(details.empty() || details.size() == folders.size(), details.size(), " details of ", folders.size(),
              " runs");
  std::vector<TrainingRun> runs;
  for (const auto& folder : folders) {
    SHADE_REQUIRE(is_training_run(folder), folder.string(),
                  " has no metrics.jsonl; expected run directories of shade train, if several are given");
    runs.push_back(read_run(folder));
    runs.back().date = written_at(metrics_of(folder));
    read_environment(runs.back(), folder);
    auto known = details.empty() ? RunDetails{} : details[runs.size() - 1];
    runs.back().settings = read_run_settings(folder, known.without_effect);
    runs.back().statement = std::move(known.statement);
    runs.back().task = task_of(runs.back());
  }
  name_runs(runs, folders);
  return runs;
}

}  // namespace shade::report
