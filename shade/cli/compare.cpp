// shade compare: a matrix of experiments, each in fresh processes.
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "shade/base/log.h"
#include "shade/base/strings.h"
#include "shade/base/terminal.h"
#include "shade/base/units.h"
#include "shade/base/visible_text.h"
#include "shade/catalog/figures.h"
#include "shade/cli/driver.h"
#include "shade/cli/matrix_verbs.h"
#include "shade/cli/planned.h"
#include "shade/cli/version.h"
#include "shade/report/findings.h"
#include "shade/report/report.h"

namespace shade::cli {
namespace {

// What a plan says of each row, as `predicted` of its result. A row that a plan can't express has none, and so have
// GPUs without a profile of them.
void predict(const std::vector<measure::MatrixRow>& rows, std::vector<Json>& results, const PlanTime& time) {
  const bool gpus =
      std::any_of(results.begin(), results.end(), [](const Json& one) { return one.value("num_gpus", 0) > 0; });
  if (gpus != time.target().accelerator().has_value()) return;
  std::vector<std::string> notes;  // were printed before the runs
  for (size_t i = 0; i < rows.size(); ++i) {
    auto planned = read_row(rows[i], notes).planned();
    planned.make(time.target());
    if (!planned.refused.empty()) continue;
    auto& out = results[i]["predicted"];
    out = {{"peak_memory_mb", mib(planned.record.peak.total)}, {"sent_bytes", planned.record.sent.count}};
    if (planned.time) out["avg_time_ms"] = Millis(planned.time->time.step).count();
  }
}

// "96.3 MiB (-0.5 %)": what was predicted, and how far that is from what was measured, if it was.
std::string predicted(const Json& result, const char* key, std::string (*words)(double)) {
  if (!result.contains("predicted") || !result.at("predicted").contains(key)) return {};
  const double value = result.at("predicted").at(key).get<double>();
  const double measured = result.value(std::string_view(key) == "avg_time_ms" ? "median_time_ms" : key, 0.0);
  return text(
      words(value),
      measured > 0 ? text(" (", value < measured ? "" : "+", significant(100 * (value / measured - 1), 2), " %)") : "");
}

void print(const std::vector<measure::MatrixRow>& rows, const measure::MatrixOutcome& outcome) {
  int64_t longest = 0;
  for (const auto& result : outcome.results) longest = std::max(longest, result.value("seq_length", int64_t{0}));
  const auto has = [&](const char* key) {
    return std::any_of(outcome.results.begin(), outcome.results.end(), [&](const Json& result) {
      return result.contains("predicted") && result.at("predicted").contains(key);
    });
  };
  const bool memory = has("peak_memory_mb"), times = has("avg_time_ms");
  std::string reasons;  // whole: a column would cut them
  std::vector<std::string> header{"experiment",           "median step", std::string(catalog::throughput_unit(longest)),
                                  "peak memory per rank", "traffic",     "load by others",
                                  "time, 99 % interval"};
  if (times) header.insert(header.begin() + 2, "predicted step");
  if (memory) header.insert(header.begin() + (times ? 5 : 4), "predicted memory");
  Table table(header);
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& [row, result] = std::tie(rows[i], outcome.results[i]);
    const bool failed = result.value("failed", false);
    if (failed) reasons += text(row.name, ": ", result.at("reason").get<std::string>(), "\n");
    std::vector<std::string> cells{
        row.name, failed ? "failed" : to_string(Seconds(result.at("median_time_ms").get<double>() / 1e3))};
    if (times)
      cells.push_back(predicted(result, "avg_time_ms", [](double ms) { return to_string(Seconds(ms / 1e3)); }));
    cells.push_back(failed ? "" : significant(result.at("tokens_per_second").get<double>()));
    cells.push_back(failed ? "" : report::memory_text(result.at("peak_memory_mb").get<double>()));
    if (memory) cells.push_back(predicted(result, "peak_memory_mb", [](double mb) { return report::memory_text(mb); }));
    if (failed)
      cells.insert(cells.end(), 3, "");
    else
      cells.insert(cells.end(), {to_string(Bytes{result.at("communication").at("bytes").get<int64_t>()}),
                                 text(significant(100 * result.at("load").at("others").get<double>(), 2), " %"),
                                 outcome.ratios[i] ? outcome.ratios[i]->describe() : ""});
    table.add(std::move(cells));
  }
  std::printf("%s%s%s", table.str().c_str(), reasons.empty() ? "" : "\nfailed\n", visible_lines(reasons).c_str());
}

// What is compared, by what it is: a preset's small model is not the one it has the shape of.
void print_models(const std::string& preset, const std::string& scale, const std::vector<Json>& results) {
  std::vector<std::string> names;
  for (const auto& result : results) {
    auto name = result.at("config").at("model_name").get<std::string>();
    if (!result.value("failed", false))
      name += text(" (", significant(result.at("parameters").get<double>() / 1e6), " M parameters)");
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  std::printf("%s%s\n", preset.empty() ? "" : text("preset ", preset, " at scale ", scale, ": ").c_str(),
              visible(join(names, "; ")).c_str());
}

// Rows that ran out of memory: what of this matrix did fit.
void advise(const std::vector<measure::MatrixRow>& rows, const std::vector<Json>& results) {
  double largest = 0;
  std::string fits = "no row of this matrix fit";
  for (size_t i = 0; i < rows.size(); ++i) {
    if (results[i].value("failed", false) || results[i].at("peak_memory_mb").get<double>() <= largest) continue;
    largest = results[i].at("peak_memory_mb").get<double>();
    fits = text("the largest row that fit is ", rows[i].name, " with ", report::memory_text(largest), " per rank");
  }
  for (size_t i = 0; i < rows.size(); ++i)
    if (results[i].value("out_of_memory", false))
      std::printf("%s ran out of memory; %s. A smaller batch, a shorter text or --checkpointing block needs less.\n",
                  visible(rows[i].name).c_str(), visible(fits).c_str());
}

int compare(MatrixLine& line, PlanTime& time, const Arguments& arguments) {
  time.read();
  const auto words = line.words();
  SHADE_REQUIRE(!words.empty(), "what is to be compared? Give --preset, or options with lists, e.g. --dp none,auto");
  const auto rows = line.rows(words);
  line.options.command = command_text("compare", arguments);
  auto outcome = line.run(rows);
  const auto& results = outcome.results;
  predict(rows, outcome.results, time);
  for (size_t i = 0; i < rows.size(); ++i)
    write_json(line.options.folder / (rows[i].name + "_result.json"), results[i]);
  const auto failed = count_failed(results);
  print_models(line.preset, line.scale, results);
  print(rows, outcome);
  advise(rows, results);
  if (!outcome.advice.empty()) std::printf("%s\n", outcome.advice.c_str());
  const auto report = report::write_report(line.options.folder, line.options.folder);
  for (const auto& warning : report.warnings) log::warning(warning);
  for (const auto& finding : report.json.at("findings"))
    if (finding.at("about") == report::kBusyMachine)
      std::printf("%s\n", visible(finding.at("text").get<std::string>()).c_str());
  std::printf("\n%zu experiments, %zu failed; results%s report.html in %s\n", rows.size(), failed,
              report.has_pictures() ? ", pictures and" : " and", visible(line.options.folder.string()).c_str());
  if (!line.json_file.empty()) write_json(line.json_file, {{"rows", results}});
  return failed == 0 ? 0 : 1;
}

struct Compare final : Invocation {
  MatrixLine line{
      "compare", "A matrix of experiments: models, strategies, clipping methods, shapes; each row in fresh processes.",
      "shade compare --model llama3-8b --num-layers 2 --hidden-dim 256 --ranks 2 --shard zero2,zero3 --dp none,auto "
      "--seq 512,1024\n  shade compare --preset dit --scale small"};
  PlanTime time;

  Compare() { time.add_to(line.app()); }

  Description description() const override { return line.description(); }
  int run(const Arguments& arguments) override;
};

}  // namespace

std::unique_ptr<Invocation> declare_compare() { return std::make_unique<Compare>(); }

int Compare::run(const Arguments& arguments) {
  if (const auto status = line.parse(arguments)) return *status;
  return driven_by_first_rank("compare", [&](int ranks) {
    line.use_ranks(ranks);
    return compare(line, time, arguments);
  });
}

}  // namespace shade::cli
