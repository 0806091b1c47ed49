#include "shade/cli/matrix_verbs.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "shade/base/log.h"
#include "shade/base/strings.h"
#include "shade/base/terminal.h"
#include "shade/base/visible_text.h"
#include "shade/cli/bench_line.h"
#include "shade/cli/describe.h"
#include "shade/cli/foreign_words.h"
#include "shade/cli/help_formatter.h"
#include "shade/data/sample_corpus.h"
#include "shade/measure/matrix.h"

namespace shade::cli {
namespace {

std::string dated_folder() {
  const auto now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char name[64];
  std::strftime(name, sizeof name, "results/run_%Y%m%d_%H%M%S", &local);
  return name;
}

// Texts for presets that read some; the same ones in every run.
std::string sample_corpus(const std::filesystem::path& folder) {
  const auto corpus = folder / "corpus";
  if (!std::filesystem::exists(corpus)) data::write_sample_corpus(corpus, MiB(1), 1);
  return corpus.string();
}

// `shade bench` refuses an option without an effect, and other rows may have a use for it.
void drop_unused(Arguments& row, const std::vector<NoEffect>& unused) {
  for (const auto& one : unused) {
    const auto at = std::find(row.begin(), row.end(), one.option);
    if (at == row.end()) continue;
    row.erase(at, at + (at + 1 != row.end() && !(at + 1)->starts_with("--") ? 2 : 1));
  }
}

}  // namespace

size_t count_failed(const std::vector<Json>& results) {
  return static_cast<size_t>(
      std::count_if(results.begin(), results.end(), [](const Json& result) { return result.value("failed", false); }));
}

Arguments bench_words(const std::vector<std::string>& remaining, std::vector<std::string>& notes, bool complete) {
  auto words = BenchLine().line.in_own_words(remaining);
  if (complete) {
    auto implied = with_implied(std::move(words));
    words = std::move(implied.arguments);
    notes = std::move(implied.notes);
  }
  Arguments out;
  for (const auto& word : words) {
    const auto equals = word.starts_with("--") ? word.find('=') : std::string::npos;
    out.push_back(measure::usual_spelling(word.substr(0, equals)));
    if (equals != std::string::npos) out.push_back(word.substr(equals + 1));
  }
  return out;
}

Description describe_with_bench(const CLI::App& app, const std::string& example) {
  auto own = describe(app, nullptr, example);
  const auto bench = BenchLine().line.description();
  for (const auto& option : bench.options)
    if (app.get_option_no_throw(option.names.front()) == nullptr) own.options.push_back(option);
  for (const auto& alias : bench.aliases)
    if (app.get_option_no_throw(alias.first.substr(0, alias.first.find(' '))) == nullptr) own.aliases.push_back(alias);
  return own;
}

std::string bench_footer(const CLI::App& app, const std::string& example, const std::string& more) {
  return text("All options of `shade bench` are accepted too; one with a list of values is an axis of the matrix.",
              more, "\n\n", BenchLine().line.aliases(&app), "Example:\n  ", example);
}

void require_used(const std::vector<std::vector<NoEffect>>& unused_by_row, const Arguments& given) {
  if (unused_by_row.empty()) return;
  for (const auto& one : unused_by_row.front()) {
    const bool everywhere = std::all_of(unused_by_row.begin(), unused_by_row.end(), [&](const auto& row) {
      return std::any_of(row.begin(), row.end(), [&](const NoEffect& other) { return other.option == one.option; });
    });
    if (everywhere && std::find(given.begin(), given.end(), one.option) != given.end()) throw UsageError(one.message);
  }
}

void print_once(const std::vector<std::string>& notes) {
  for (auto note = notes.begin(); note != notes.end(); ++note)
    if (std::find(notes.begin(), note, *note) == note) std::printf("%s\n", visible(*note).c_str());
}

MatrixLine::MatrixLine(const std::string& verb, const std::string& summary, const std::string& example)
    : app_(summary, "shade " + verb), example_(example) {
  use_help(app_);
  app_.allow_extras();
  app_.add_option("--output-dir,--output", folder_, "folder of the results [results/run_YYYYMMDD_HHMMSS]")
      ->type_name("DIR");
  app_.add_option("--preset", preset, "named set of experiments: " + join(measure::preset_names(), ", "));
  app_.add_option("--scale", scale, "size of a preset: small (minutes on two cores) or full [small]")
      ->check(CLI::IsMember({"small", "full"}));
  app_.add_option("--repeats,--repeat", options.repeats.repeat,
                  "exact number of runs per row, interleaved (1 to 1000) [until the time ratios are known to 3 %, or "
                  "the time budget is used]")
      ->check(CLI::Range(1, 1000));
  app_.add_option("--time-budget", budget_,
                  "time for repeated runs, e.g. 10m; a round starts only if it is expected to end in time [12 times "
                  "the first round, at most 10 min, or 3 min for a small preset]")
      ->type_name("TIME")
      ->excludes("--repeats");
  app_.add_flag("--resume", options.resume, "skip runs whose results are already in the folder");
  app_.add_option("--row-limit", row_limit_, "time limit per row, e.g. 10min; a row that takes longer fails [1h]")
      ->type_name("TIME");
  app_.add_option("--memory-limit", memory_limit_,
                  "memory limit per process, e.g. 4GiB; a row that needs more fails [no limit]")
      ->type_name("BYTES");
  app_.add_option(
          "--json", json_file,
          "file that a summary is also written to as JSON; -: standard output, with everything else on standard error")
      ->type_name("FILE");
  add_log_level(app_, log_level_);
}

std::optional<int> MatrixLine::parse(const Arguments& arguments) {
  app_.footer(bench_footer(app_, example_));
  for (const auto& word : arguments)
    SHADE_REQUIRE(!word.starts_with("--") || !word.ends_with('='), "'", word,
                  "' has no value; expected one after the equals sign");
  if (const auto status = parse_words(app_, arguments)) return status;
  log::set_level(log::parse_level(log_level_));
  rest_ = bench_words(app_.remaining(), notes_, preset.empty());
  json_file = json_target(json_file);
  options.folder = folder_.empty() ? dated_folder() : folder_;
  SHADE_REQUIRE(!options.resume || !folder_.empty(), "--resume needs --output-dir: which run is to be completed?");
  if (!budget_.empty()) {
    options.repeats.budget = parse_seconds(budget_);
    options.repeats.repeat = 0;
  }
  if (!preset.empty() && scale == "small") options.repeats.most = Seconds(180);
  if (!preset.empty()) options.preset = {{"name", preset}, {"scale", scale}};
  if (!row_limit_.empty()) options.row_limit = parse_seconds(row_limit_);
  if (!memory_limit_.empty()) options.memory_limit = parse_bytes(memory_limit_);
  return std::nullopt;
}

void MatrixLine::use_ranks(int ranks) {
  if (ranks > 1 && std::find(rest_.begin(), rest_.end(), "--ranks") == rest_.end())
    rest_.insert(rest_.end(), {"--ranks", std::to_string(ranks)});
}

Arguments MatrixLine::words() const {
  Arguments out;
  if (!preset.empty())
    out = measure::preset_arguments(preset, scale == "small" ? measure::Scale::small : measure::Scale::full);
  out.insert(out.end(), rest_.begin(), rest_.end());
  for (auto& word : out)
    if (word == measure::kCorpus) word = sample_corpus(options.folder);
  return out;
}

std::vector<measure::MatrixRow> MatrixLine::rows(const Arguments& arguments) const {
  auto rows = measure::expand(arguments);
  auto notes = notes_;
  std::vector<std::vector<NoEffect>> unused;
  for (auto& row : rows) {
    BenchLine bench;
    SHADE_REQUIRE(!bench.parse(row.arguments), "--help stands between the options of a matrix");
    notes.insert(notes.end(), bench.notes.begin(), bench.notes.end());
    row.model_name = models::model_title(bench.experiment.model.model, bench.experiment.sizes);
    drop_unused(row.arguments, unused.emplace_back(bench.unused));
  }
  require_used(unused, rest_);
  print_once(notes);
  return rows;
}

measure::MatrixOutcome MatrixLine::run(const std::vector<measure::MatrixRow>& rows) {
  std::optional<Progress> progress;
  return measure::run_matrix(rows, options, [&](const measure::MatrixProgress& at) {
    if (at.done == 0) progress.emplace(text("round ", at.round), static_cast<int64_t>(at.all));
    progress->advance_to(static_cast<int64_t>(at.done), at.row);
  });
}

}  // namespace shade::cli
