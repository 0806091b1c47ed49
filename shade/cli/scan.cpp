// shade scan: which phase grows how with the text's length; the bottleneck and its remedy.
#include <cstdio>

#include "shade/base/terminal.h"
#include "shade/base/visible_text.h"
#include "shade/cli/matrix_verbs.h"
#include "shade/measure/scan.h"

namespace shade::cli {

int run_scan(const Arguments& arguments) {
  MatrixLine line(
      "scan", "Step times over lengths of the text, phase by phase: a power law each, the bottleneck, and what helps.",
      "shade scan --seq 512,1024,2048,4096,8192 --dp ghost,flash,flash_bookkeeping");
  if (const auto status = line.parse(arguments)) return *status;
  // A small Llama unless told otherwise; later options win.
  Arguments words{"--model",      "llama3-8b", "--task",       "classify", "--hidden-dim",   "256",
                  "--num-layers", "2",         "--num-heads",  "4",        "--num-kv-heads", "2",
                  "--ffn-dim",    "768",       "--vocab-size", "1024",     "--batch-size",   "1",
                  "--num-iter",   "2"};
  if (std::find(line.rest().begin(), line.rest().end(), "--model") != line.rest().end()) words.clear();
  bool lengths = false;
  for (const auto& word : line.rest()) lengths = lengths || word.starts_with("--seq");
  if (!lengths) words.insert(words.end(), {"--seq-length", "512,1024,2048,4096"});
  words.insert(words.end(), line.rest().begin(), line.rest().end());
  const auto rows = line.rows(words);
  auto results = line.run(rows);
  const auto failed = count_failed(results);
  SHADE_REQUIRE(failed == 0, failed, " of ", rows.size(), " experiments failed; their logs are in ",
                (line.options.folder / "logs").string());
  std::stable_sort(results.begin(), results.end(), [](const Json& a, const Json& b) {
    return a.at("seq_length").get<int64_t>() < b.at("seq_length").get<int64_t>();
  });
  const auto verdict = measure::judge(results);
  std::vector<std::string> header{"method", "phase"};
  if (!verdict.phases.empty())
    for (const auto& [length, ms] : verdict.phases.front().points) header.push_back(text("T=", length));
  header.insert(header.end(), {"exponent", "95 % interval", "T^2 part", "verdict"});
  Table table(header);
  for (const auto& phase : verdict.phases) {
    std::vector<std::string> cells{phase.method, phase.phase};
    for (const auto& [length, ms] : phase.points) cells.push_back(text(significant(ms), " ms"));
    cells.insert(cells.end(), {significant(phase.growth.exponent, 3),
                               text(significant(phase.growth.low, 3), " to ", significant(phase.growth.high, 3)),
                               text(significant(100 * phase.growth.square, 2), " %"), phase.growth.verdict});
    table.add(cells);
  }
  std::printf("%s\nbottleneck: %s\nremedy: %s\nresults in %s\n", table.str().c_str(),
              visible(verdict.bottleneck).c_str(), visible(verdict.remedy).c_str(),
              visible(line.options.folder.string()).c_str());
  if (!line.json_file.empty()) write_json(line.json_file, verdict.json());
  return 0;
}

}  // namespace shade::cli
