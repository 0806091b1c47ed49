// shade compare: a matrix of experiments, each in fresh processes.
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "shade/base/log.h"
#include "shade/base/terminal.h"
#include "shade/base/visible_text.h"
#include "shade/catalog/figures.h"
#include "shade/cli/matrix_verbs.h"
#include "shade/cli/origin.h"
#include "shade/data/sample_corpus.h"
#include "shade/measure/presets.h"
#include "shade/report/findings.h"
#include "shade/report/report.h"

namespace shade::cli {
namespace {

void print(const std::vector<measure::MatrixRow>& rows, const std::vector<Json>& results) {
  int64_t longest = 0;
  for (const auto& result : results) longest = std::max(longest, result.value("seq_length", int64_t{0}));
  Table table(
      {"experiment", "step", std::string(catalog::throughput_unit(longest)), "peak memory per rank", "traffic"});
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& [row, result] = std::tie(rows[i], results[i]);
    if (result.value("failed", false)) {
      table.add({row.name, "failed", "", "", result.at("reason").get<std::string>().substr(0, 80)});
      continue;
    }
    table.add({row.name, to_string(Seconds(result.at("avg_time_ms").get<double>() / 1e3)),
               significant(result.at("tokens_per_second").get<double>()),
               report::memory_text(result.at("peak_memory_mb").get<double>()),
               to_string(Bytes{result.at("communication").at("bytes").get<int64_t>()})});
  }
  std::printf("%s", table.str().c_str());
}

// Rows that ran out of memory: what of this matrix did fit.
void advise(const std::vector<measure::MatrixRow>& rows, const std::vector<Json>& results) {
  double largest = 0;
  std::string fits = "nothing of this matrix fitted";
  for (size_t i = 0; i < rows.size(); ++i) {
    if (results[i].value("failed", false) || results[i].at("peak_memory_mb").get<double>() <= largest) continue;
    largest = results[i].at("peak_memory_mb").get<double>();
    fits = text("the largest that fitted is ", rows[i].name, " with ", report::memory_text(largest), " per rank");
  }
  for (size_t i = 0; i < rows.size(); ++i)
    if (results[i].value("out_of_memory", false))
      std::printf("%s ran out of memory; %s. A smaller batch, a shorter text or --checkpointing block needs less.\n",
                  visible(rows[i].name).c_str(), visible(fits).c_str());
}

// Texts for presets that read some; the same ones in every run.
std::string sample_corpus(const std::filesystem::path& folder) {
  const auto corpus = folder / "corpus";
  if (!std::filesystem::exists(corpus)) data::write_sample_corpus(corpus, MiB(1), 1);
  return corpus.string();
}

}  // namespace

int run_compare(const Arguments& arguments) {
  MatrixLine line(
      "compare", "A matrix of experiments: models, strategies, clipping methods, shapes; each row in fresh processes.",
      "shade compare --model llama3-8b --num-layers 2 --hidden-dim 256 --ranks 2 --shard zero2,zero3 --dp none,auto "
      "--seq 512,1024\n  shade compare --preset dit --scale small");
  std::string preset, scale = "small";
  line.app().add_option("--preset", preset, "llama3-fsdp, bottlenecks, zero2-vs-zero3, linear or dit");
  line.app()
      .add_option("--scale", scale, "of a preset: small (minutes on two cores) or full [small]")
      ->check(CLI::IsMember({"small", "full"}));
  if (const auto status = line.parse(arguments)) return *status;
  Arguments words;
  if (!preset.empty())
    words = measure::preset_arguments(preset, scale == "small" ? measure::Scale::small : measure::Scale::full);
  words.insert(words.end(), line.rest().begin(), line.rest().end());
  for (auto& word : words)
    if (word == measure::kCorpus) word = sample_corpus(line.options.folder);
  SHADE_REQUIRE(!words.empty(), "what is to be compared? Give --preset, or options with lists, e.g. --dp none,auto");
  const auto rows = line.rows(words);
  line.options.command = command_text("compare", arguments);
  const auto results = line.run(rows);
  const auto failed = count_failed(results);
  print(rows, results);
  advise(rows, results);
  const auto report = report::write_report(line.options.folder, line.options.folder);
  for (const auto& warning : report.warnings) log::warning(warning);
  std::printf("\n%zu experiments, %zu failed; results%s report.html in %s\n", rows.size(), failed,
              report.has_pictures() ? ", pictures and" : " and", visible(line.options.folder.string()).c_str());
  if (!line.json_file.empty()) write_json(line.json_file, {{"rows", results}});
  return failed == 0 ? 0 : 1;
}

}  // namespace shade::cli
