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
#include "shade/report/findings.h"
#include "shade/report/palette.h"
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

// Training runs in words and numbers: the table on the terminal, and what the page draws from.

namespace {

constexpr const char* kNoCurve = "-";
constexpr size_t kWidest = 40;  // bytes of a setting in a column of the terminal; the page has all of it

std::string task_text(const std::string& task) {
  return task == "lm" ? "language model" : task == "classify" ? "classifier" : task;
}

std::string last_of(const Curve& curve) { return curve.empty() ? kNoCurve : significant(curve.rbegin()->second, 4); }

std::string lowest_of(const Curve& curve) {
  const auto lowest = std::min_element(curve.begin(), curve.end(), [](const auto& a, const auto& b) {
    return !std::isnan(a.second) && (std::isnan(b.second) || a.second < b.second);
  });
  return lowest == curve.end() ? kNoCurve : text(significant(lowest->second, 4), " at step ", lowest->first);
}

// Of the last evaluation of held-out records, or of the test records.
using LastScores = std::map<std::string, double>;
LastScores held_out_scores(const TrainingRun& run) {
  LastScores out;
  for (const auto& [key, curve] : run.scores)
    if (!curve.empty()) out[key] = curve.rbegin()->second;
  return out;
}

std::string score_text(const ScoreInfo& score, const LastScores& scores) {
  const auto found = scores.find(score.key);
  if (found == scores.end()) return kNoCurve;
  return score.is_share ? percent(100 * found->second) : significant(found->second);
}

// A column of the terminal's table. A baseline has none of its own: it is beside what it is the baseline of.
void add_score_columns(std::vector<std::string>& header, std::vector<std::vector<std::string>>& lines,
                       const std::vector<LastScores>& scores, const std::string& before) {
  for (const auto& score : kScores) {
    if (score.key == std::string(kMajority)) continue;
    const auto known = [&](const auto& one) { return one.contains(score.key); };
    if (std::none_of(scores.begin(), scores.end(), known)) continue;
    header.push_back(text(before, score.heading, score.baseline == nullptr ? "" : " (most frequent class)"));
    for (size_t i = 0; i < lines.size(); ++i) {
      auto words = score_text(score, scores[i]);
      if (score.baseline != nullptr && scores[i].contains(score.baseline))
        words += text(" (", percent(100 * scores[i].at(score.baseline)), ")");
      lines[i].push_back(words);
    }
  }
}

std::string runs_table(const std::vector<TrainingRun>& runs) {
  std::vector<std::string> header{"run"};
  std::vector<std::vector<std::string>> lines;
  std::vector<LastScores> held_out, test;
  for (const auto& run : runs) {
    lines.push_back({visible(run.name)});
    held_out.push_back(held_out_scores(run));
    test.push_back(run.test);
  }
  add_score_columns(header, lines, held_out, "");
  add_score_columns(header, lines, test, "test ");
  for (const auto* name : {"privacy", "steps", "held-out loss", "lowest held-out loss", "loss"})
    header.emplace_back(name);
  Table table(header);
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto& run = runs[i];
    for (auto& words : {run.is_private ? run.privacy() : "none", std::to_string(run.steps()), last_of(run.held_out),
                        lowest_of(run.held_out), last_of(run.loss)})
      lines[i].push_back(words);
    table.add(lines[i]);
  }
  return table.str();
}

std::vector<Settings> settings_of(const std::vector<TrainingRun>& runs) {
  std::vector<Settings> out;
  for (const auto& run : runs) out.push_back(run.settings);
  return out;
}

// Empty: they don't differ, or don't say.
std::string table_of_differences(const std::vector<TrainingRun>& runs) {
  const auto differences = differing_settings(settings_of(runs));
  if (differences.empty()) return "";
  std::vector<std::string> header{"setting"};
  for (const auto& run : runs) header.push_back(visible(run.name));
  Table table(header);
  for (const auto& one : differences) {
    std::vector<std::string> row{one["setting"].get<std::string>()};
    for (const auto& value : one["values"]) row.push_back(visible(value.get<std::string>(), kWidest));
    table.add(row);
  }
  return "\nsettings that differ:\n" + table.str();
}

Json points_json(const Curve& curve) {
  auto out = Json::array();
  for (const auto& [step, value] : curve) out.push_back({step, value});
  return out;
}

Json json_of_run(const TrainingRun& run, size_t number) {
  Json out{{"name", run.name},
           {"colour", colour_of_run(number)},
           {"task", task_text(run.task)},
           {"privacy", run.privacy()},
           {"date", run.date},
           {"steps", run.steps()},
           {"private", run.is_private},
           {"epsilon_void", run.void_epsilon},
           {"no_epsilon_since", run.first_without ? Json(*run.first_without) : Json()},
           {"delta", run.delta},
           {"loss", points_json(run.loss)},
           {"held_out_loss", points_json(run.held_out)},
           {"epsilon", points_json(run.epsilon)},
           {"scores", Json::object()},
           {"test", run.test},
           {"statement", run.statement}};
  for (const auto& [key, curve] : run.scores) out["scores"][key] = points_json(curve);
  if (const auto command = run.environment.find("command"); command != run.environment.end())
    out["command"] = command->second;
  return out;
}

}  // namespace

std::vector<LossChart> loss_charts(const std::vector<TrainingRun>& runs) {
  std::vector<std::string> tasks;
  std::vector<LossChart> out;
  for (size_t i = 0; i < runs.size(); ++i) {
    auto at = static_cast<size_t>(std::find(tasks.begin(), tasks.end(), runs[i].task) - tasks.begin());
    if (at == tasks.size()) {
      tasks.push_back(runs[i].task);
      const auto words = runs[i].task.empty() ? "task unknown" : visible(task_text(runs[i].task));
      out.push_back({.title = text("Loss (", words, ")"), .runs = {}});
    }
    out[at].runs.push_back(i);
  }
  if (out.size() == 1) out.front().title = "Loss";
  return out;
}

std::vector<Finding> findings_of(const std::vector<TrainingRun>& runs) {
  std::vector<Finding> out;
  for (const auto& run : runs) {
    const bool tested = run.test.contains("accuracy") && run.test.contains(kMajority);
    const auto scores = tested ? run.test : held_out_scores(run);
    const auto accuracy = scores.find("accuracy"), majority = scores.find(kMajority);
    if (accuracy == scores.end() || majority == scores.end() || !(accuracy->second <= majority->second)) continue;
    out.push_back(
        {accuracy->second < majority->second ? "Below the majority class" : "No better than the majority class",
         text(visible(run.name), " names the right class of ", percent(100 * accuracy->second), " of the ",
              tested ? "test" : "held-out", " records; always naming the most frequent class reaches ",
              percent(100 * majority->second), ". A falling loss does not make up for that.")});
  }
  return out;
}

std::string summary_of(const std::vector<TrainingRun>& runs) {
  std::string out = runs_table(runs) + "\n";
  for (const auto& [about, words, is_doubt] : findings_of(runs)) out += text(about, ": ", words, "\n");
  if (std::any_of(runs.begin(), runs.end(), [](const auto& run) { return run.scores.contains("accuracy"); }))
    out += "most frequent class: the accuracy of always naming it. ";
  if (std::any_of(runs.begin(), runs.end(), [](const auto& run) { return run.has_data_ledger(); }))
    out += "this run alone: runs that share a data ledger are covered together by its cap. ";
  return out +
         "loss: of the last reported batch. held-out: of the last evaluation. epsilon: at the last reported step; "
         "the ledger of the run counts those after it too.\n" +
         table_of_differences(runs);
}

Json json_of(const std::vector<TrainingRun>& runs) {
  Json out{{"runs", Json::array()}, {"findings", Json::array()}, {"scores", Json::array()}, {"losses", Json::array()}};
  for (const auto& run : runs) out["runs"].push_back(json_of_run(run, out["runs"].size()));
  for (const auto& [about, words, is_doubt] : findings_of(runs))
    out["findings"].push_back({{"about", about}, {"text", words}, {"doubt", true}});
  for (const auto& score : kScores)
    out["scores"].push_back({{"key", score.key},
                             {"heading", score.heading},
                             {"unit", score.is_share ? "share" : ""},
                             {"baseline", score.baseline == nullptr ? "" : score.baseline}});
  for (const auto& chart : loss_charts(runs)) out["losses"].push_back({{"title", chart.title}, {"runs", chart.runs}});
  out["differing_settings"] = differing_settings(settings_of(runs));
  out["settings"] = grouped_settings(settings_of(runs));
  return out;
}

}  // namespace shade::report
