// shade scan: which phase and which memory grows how with the sequence length; the bottleneck of each method and its
// remedy.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "shade/base/log.h"
#include "shade/base/strings.h"
#include "shade/base/terminal.h"
#include "shade/base/units.h"
#include "shade/base/visible_text.h"
#include "shade/cli/driver.h"
#include "shade/cli/matrix_verbs.h"
#include "shade/measure/scan.h"
#include "shade/report/report.h"

namespace shade::cli {
namespace {

constexpr int64_t kRuns = 5;  // of each length: laws are told apart through 20 % noise (docs/measuring.md)

bool names_option(const Arguments& words, std::string_view option) {
  return std::any_of(words.begin(), words.end(), [&](const auto& word) { return dashed(word).starts_with(option); });
}

// A small Llama, unless another model or a preset is asked for.
Arguments matrix_words(const MatrixLine& line) {
  auto words = line.words();
  Arguments out;
  if (line.preset.empty() && !names_option(words, "--model"))
    out = {"--model",      "llama3-8b", "--task",         "classify", "--hidden-dim", "256", "--num-layers", "2",
           "--num-heads",  "4",         "--num-kv-heads", "2",        "--ffn-dim",    "768", "--vocab-size", "1024",
           "--batch-size", "1",         "--num-iter",     "2"};
  if (!names_option(words, "--seq-length") && !names_option(words, "--image-size"))
    out.insert(out.end(), {"--seq-length", "512,1024,2048,4096"});
  out.insert(out.end(), words.begin(), words.end());
  return out;
}

// What a row is called besides its length.
std::string series_of(const measure::MatrixRow& row, const Json& result) {
  std::vector<std::string> out{result.at("dp").get<std::string>()};
  for (const auto& [option, value] : row.varied)
    if (option != "--dp" && option != "--seq-length" && option != "--image-size" && option != "--patch-size")
      out.push_back(option == "--shard" ? value : text(option.substr(2), " ", value));
  return join(out, ", ");
}

std::string with_unit(double value, bool memory) {
  return memory ? to_string(from_mib(value)) : to_string(Seconds(value / 1e3));
}

// Exponents: two digits after the point, as many as they are worth.
std::string two_digits(double value) {
  char out[32];
  std::snprintf(out, sizeof out, "%.2f", std::abs(value) < 0.005 ? 0.0 : value);
  return out;
}

void print(const std::vector<measure::FigureGrowth>& figures, const std::vector<double>& lengths, bool memory) {
  std::vector<std::string> header{"method", memory ? "memory" : "phase"};
  for (const auto length : lengths) header.push_back(text("T=", length));
  header.insert(header.end(), {"exponent", "95 % interval", "share of T^2", "verdict"});
  Table table(header);
  for (const auto& one : figures) {
    const auto& growth = one.growth;
    std::vector<std::string> cells{one.method, one.figure};
    for (const auto length : lengths) cells.push_back(with_unit(one.median_at(length), memory));
    cells.push_back(growth.exponent ? two_digits(*growth.exponent) : "-");
    cells.push_back(growth.interval ? text(two_digits(growth.interval->low), " to ", two_digits(growth.interval->high))
                                    : "-");
    cells.push_back(growth.longest > 0 ? text(significant(100 * growth.between[2].low, 2), " to ",
                                              significant(100 * growth.between[2].high, 2), " %")
                                       : "-");
    cells.push_back(growth.verdict);
    table.add(cells);
  }
  std::printf("%s\n", table.str().c_str());
}

int scan(MatrixLine& line) {
  const auto rows = line.rows(matrix_words(line));
  const auto results = line.run(rows).results;
  const auto failed = count_failed(results);
  SHADE_REQUIRE(failed == 0, failed, " of ", rows.size(), " experiments failed; their logs are in ",
                (line.options.folder / "logs").string());
  std::vector<measure::Scanned> scanned;
  std::set<double> found;
  for (size_t i = 0; i < rows.size(); ++i) {
    scanned.push_back({series_of(rows[i], results[i]), results[i]});
    found.insert(results[i].at("seq_length").get<double>());
  }
  const std::vector<double> lengths(found.begin(), found.end());
  const auto verdict = measure::judge(scanned);
  print(verdict.phases, lengths, false);
  print(verdict.memory, lengths, true);
  if (lengths.size() < 3)
    std::printf("%zu length%s: a law needs three. Give more, e.g. --seq 512,1024,2048,4096\n", lengths.size(),
                lengths.size() == 1 ? "" : "s");
  for (const auto& one : verdict.methods)
    std::printf("bottleneck: %s\n  remedy: %s\n", visible(one.describe()).c_str(), visible(one.remedy).c_str());
  const auto json = verdict.json();
  const auto fault = report::write_growth_picture(json, results, line.options.folder);
  if (!fault.empty()) log::warning(fault);
  std::printf("results%s in %s\n", fault.empty() ? " and visualizations/growth.png" : "",
              visible(line.options.folder.string()).c_str());
  if (!line.json_file.empty()) write_json(line.json_file, json);
  return 0;
}

struct Scan final : Invocation {
  MatrixLine line{"scan",
                  "Step times and memory over sequence lengths, phase by phase: how each grows, the bottleneck of each "
                  "method, and its remedy.",
                  "shade scan --seq 512,1024,2048,4096,8192 --dp ghost,flash,flash_bookkeeping\n  shade scan --preset "
                  "bottlenecks"};

  Scan() { line.options.repeats.repeat = kRuns; }

  Description description() const override { return line.description(); }
  int run(const Arguments& arguments) override;
};

}  // namespace

std::unique_ptr<Invocation> declare_scan() { return std::make_unique<Scan>(); }

int Scan::run(const Arguments& arguments) {
  if (const auto status = line.parse(arguments)) return *status;
  return driven_by_first_rank("scan", [&](int ranks) {
    line.use_ranks(ranks);
    return scan(line);
  });
}

}  // namespace shade::cli
