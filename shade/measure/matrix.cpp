#include "shade/measure/matrix.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <numeric>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/catalog/methods.h"
#include "shade/measure/bench.h"

namespace shade::measure {
namespace {

struct Option {
  std::string name;      // its first spelling: --data_parallel and --shard.shard are both --shard
  bool is_list = false;  // by nature: a list of values is one value
};

Option option_of(const std::string& word) {
  static const auto spellings = [] {
    std::map<std::string, Option> out{{"--seq", {"--seq-length"}}, {"--nproc-per-node", {"--ranks"}}};
    Experiment experiment;
    Config config;
    experiment.declare(config);
    for (const auto& field : config.fields()) {
      const auto names = field.spellings();
      for (const auto& name : names) out[name] = {names.front(), field.is_list()};
    }
    return out;
  }();
  const auto found = spellings.find(dashed(word));
  return found == spellings.end() ? Option{dashed(word)} : found->second;
}

// Short names for the axes people vary most; others are called by their option.
std::string abbreviation(const std::string& option) {
  static const std::map<std::string, std::string> known{
      {"--seq-length", "seq"}, {"--batch-size", "batch"}, {"--grad-accum", "accum"}, {"--shard", ""}, {"--dtype", ""}};
  const auto found = known.find(option);
  if (found != known.end()) return found->second;
  auto word = option.substr(option.find_first_not_of('-'));
  std::replace(word.begin(), word.end(), '.', '-');
  return word;
}

std::string name_of(const std::vector<std::pair<std::string, std::string>>& fixed,
                    const std::vector<std::pair<std::string, std::string>>& varied) {
  const auto mode_word = [](const std::string& method) {
    return method == "none" ? catalog::mode_of(method, "") : method;
  };
  std::string mode = mode_word("none"), sequence, rest;
  for (const auto& [option, value] : fixed)
    if (option == "--dp") mode = mode_word(value);
  for (const auto& [option, value] : varied) {
    if (option == "--dp")
      mode = mode_word(value);
    else if (option == "--seq-length")
      sequence = "_seq" + value;
    else
      rest += "_" + abbreviation(option) + value;
  }
  auto name = mode + sequence + rest;
  for (auto& c : name)
    if (c == '/' || c == ' ') c = '-';
  return name;
}

std::filesystem::path repeat_file(const MatrixOptions& options, const MatrixRow& row, int64_t repeat) {
  return options.folder / "repeats" / text(row.name, "_", repeat, ".json");
}

// Repeats of one row: the times of all, the memory of the largest.
Json merged(const MatrixOptions& options, const MatrixRow& row) {
  Json out;
  std::vector<double> times;
  for (int64_t i = 0; i < options.repeat; ++i) {
    auto one = read_json(repeat_file(options, row, i));
    if (one.value("failed", false)) return one;
    for (const auto& time : one["times_ms"]) times.push_back(time.get<double>());
    if (out.is_null() || one["peak_memory_mb"] > out["peak_memory_mb"]) out = one;
  }
  const double average = std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
  const double scale = average / out["avg_time_ms"].get<double>();
  for (const auto& figure : catalog::kFigures)
    if (figure.is_rate && out.contains(figure.key)) out[figure.key] = out[figure.key].get<double>() / scale;
  out["times_ms"] = times;
  out["avg_time_ms"] = average;
  out["repeats"] = options.repeat;
  return out;
}

}  // namespace

std::vector<MatrixRow> expand(const std::vector<std::string>& arguments) {
  std::vector<std::pair<std::string, std::string>> given;
  for (size_t i = 0; i < arguments.size(); ++i) {
    auto option = arguments[i];
    std::string value;
    const bool joined = option.starts_with("--") && option.find('=') != std::string::npos;
    if (joined) {
      value = option.substr(option.find('=') + 1);
      option = option.substr(0, option.find('='));
    } else if (option.starts_with("--")) {  // --batch-size 2 4 8 is --batch-size 2,4,8
      for (; i + 1 < arguments.size() && !arguments[i + 1].starts_with("--"); ++i)
        value += (value.empty() ? "" : ",") + arguments[i + 1];
    }
    option = option_of(option).name;
    const auto earlier = std::find_if(given.begin(), given.end(), [&](const auto& one) { return one.first == option; });
    if (earlier == given.end())
      given.emplace_back(option, value);
    else
      earlier->second = value;
  }
  std::vector<std::pair<std::string, std::string>> fixed;
  std::vector<std::string> shared;
  std::vector<Axis> axes;
  for (const auto& [option, value] : given) {
    if (value.find(',') != std::string::npos && !option_of(option).is_list) {
      axes.push_back({option, split(value, ',')});
      continue;
    }
    shared.push_back(option);
    if (!value.empty()) shared.push_back(value);
    fixed.emplace_back(option, value);
  }
  std::vector<MatrixRow> rows;
  std::vector<size_t> at(axes.size(), 0);
  for (;;) {
    std::vector<std::pair<std::string, std::string>> varied;
    MatrixRow row{.arguments = shared};
    for (size_t a = 0; a < axes.size(); ++a) {
      varied.emplace_back(axes[a].option, axes[a].values[at[a]]);
      row.arguments.insert(row.arguments.end(), {axes[a].option, axes[a].values[at[a]]});
    }
    row.name = name_of(fixed, varied);
    rows.push_back(std::move(row));
    size_t a = axes.size();
    while (a > 0 && ++at[a - 1] == axes[a - 1].values.size()) at[--a] = 0;
    if (a == 0) break;
  }
  return rows;
}

std::vector<Json> run_matrix(const std::vector<MatrixRow>& rows, const MatrixOptions& options,
                             const std::function<void(const MatrixProgress&)>& progress) {
  std::filesystem::create_directories(options.folder / "repeats");
  std::filesystem::create_directories(options.folder / "logs");
  const size_t all = rows.size() * static_cast<size_t>(options.repeat);
  size_t done = 0;
  for (int64_t repeat = 0; repeat < options.repeat; ++repeat)
    for (const auto& row : rows) {
      progress({done, all, row.name});
      const auto file = repeat_file(options, row, repeat);
      ++done;
      if (options.resume && std::filesystem::exists(file)) continue;
      // Written beside and renamed when complete: a file that is there is a finished run.
      const auto unfinished = file.string() + ".unfinished";
      IsolatedRun run{.command = {"/proc/self/exe", "bench"},
                      .log = options.folder / "logs" / text(row.name, "_", repeat, ".txt"),
                      .limit = options.row_limit,
                      .memory = options.memory_limit};
      run.command.insert(run.command.end(), row.arguments.begin(), row.arguments.end());
      run.command.insert(run.command.end(), {"--json", unfinished});
      const auto outcome = run_isolated(run);
      if (!outcome.ok)
        write_json(unfinished, {{"failed", true},
                                {"reason", outcome.reason},
                                {"out_of_memory", outcome.out_of_memory},
                                {"log_key", row.name},
                                {"arguments", row.arguments}});
      std::filesystem::rename(unfinished, file);
    }
  std::vector<Json> results;
  for (const auto& row : rows) {
    results.push_back(merged(options, row));
    if (!options.command.empty()) results.back()["environment"]["command"] = options.command;
    write_json(options.folder / (row.name + "_result.json"), results.back());
  }
  return results;
}

}  // namespace shade::measure
