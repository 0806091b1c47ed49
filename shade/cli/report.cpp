// shade report: redraws what a folder of results says, or draws runs of training.

#include <cmath>
#include <cstdio>
#include <filesystem>

#include "shade/base/effect.h"
#include "shade/base/error.h"
#include "shade/base/files.h"
#include "shade/base/log.h"
#include "shade/base/program_path.h"
#include "shade/base/strings.h"
#include "shade/base/visible_text.h"
#include "shade/cli/verb.h"
#include "shade/report/audits.h"
#include "shade/report/report.h"
#include "shade/report/runs.h"
#include "shade/train/release/privacy_statement.h"
#include "shade/train/run/run_folder.h"

namespace shade::cli {
namespace {

// What shade report shows of a training run beyond its metrics: the privacy statement, and settings without effect.

// The lines of the terminal without their margin, and the lists that only PRIVACY.md has.
std::vector<std::string> statement_of(const train::Recipe& recipe, const std::filesystem::path& run) {
  const auto statement = train::state_privacy(recipe, run);
  std::vector<std::string> out;
  for (const auto& line : short_lines(statement)) {
    auto words = trim(line);
    if (out.empty() && words.starts_with("privacy ")) words = trim(words.substr(8));
    out.push_back(visible(words));
  }
  if (!statement.no_guarantee.empty()) return out;
  for (const auto& [about, list] :
       {std::pair("taken as public: ", &statement.taken_as_public), {"not covered: ", &statement.not_covered}}) {
    if (!list->empty()) out.push_back(about + visible(join(*list, "; ")));
  }
  return out;
}

std::set<std::string> without_effect(const train::Recipe& recipe, const Config& config) {
  // --max-grad-norm of a run that is not private is the clipping of the whole gradient, shown as optim.grad_clip.
  Facts facts{{kStepKind, {recipe.dp.is_private() ? kPrivateStep : kPlainStep, {}}},
              {train::kHeldOutFact, recipe.train.held_out_fact()}};
  try {
    facts[kModelKind] = recipe.model.model_kind(recipe.sizes);
  } catch (const Error&) {
    // the folder of the model is elsewhere by now
  }
  std::set<std::string> out;
  for (const auto& field : config.fields())
    if (unmet(field, config, facts)) out.insert(field.key());
  return out;
}

// Of a run directory; empty for one without a recipe. A ledger or recipe that cannot be read does not stop the report:
// the statement then says why there is none.
report::RunDetails run_details(const std::filesystem::path& run) {
  report::RunDetails out;
  const bool has_ledger = std::filesystem::exists(run / train::kLedgerFile);
  try {
    if (!std::filesystem::exists(run / train::kRecipeFile)) return out;
    train::Recipe recipe;
    Config config;
    recipe.declare(config);
    config.read_toml(run / train::kRecipeFile);
    out.without_effect = without_effect(recipe, config);
    if (has_ledger || recipe.dp.is_private()) out.statement = statement_of(recipe, run);
  } catch (const std::exception& fault) {
    if (has_ledger) out.statement = {text("no privacy statement: ", visible(without_folders_within(fault.what())))};
  }
  return out;
}

// "2.89=bytes by frequency", or the number alone.
report::ReferenceLine parse_line(const std::string& word) {
  const auto equals = word.find('=');
  const auto value = parse_real(trim(word.substr(0, equals)));
  SHADE_REQUIRE(value && std::isfinite(*value), "--line '", word,
                "' doesn't begin with a number; expected LOSS or LOSS=WORDS, e.g. --line '2.89=bytes by frequency'");
  return {.value = *value,
          .words = equals == std::string::npos ? "" : std::string(trim(std::string_view(word).substr(equals + 1)))};
}

bool has_json(const std::filesystem::path& folder) {
  std::error_code fault;
  for (std::filesystem::directory_iterator entry(folder, fault), end; !fault && entry != end; entry.increment(fault))
    if (entry->path().extension() == ".json") return true;
  return false;
}

struct ReportVerb final : LineVerb {
  std::vector<std::filesystem::path> folders;
  std::vector<std::string> words;
  std::string output;

  ReportVerb()
      : LineVerb("report",
                 "Table, CSV, pictures and one HTML page from the result files of a folder; or table, picture and "
                 "HTML page of training runs.",
                 "shade report results/run_20260131_120000 --output-dir redrawn\n"
                 "  shade report plan.json --output-dir planned\n"
                 "  shade report runs/llama_nano runs/llama_nano_private --line '2.89=bytes by frequency'") {
    line.app()
        .add_option(
            "DIR,--input-dir", folders,
            "folder with JSON files of shade bench, compare or plan, or of shade audit; one such file; or one or "
            "more run directories of shade train")
        ->required();
    line.app()
        .add_option("--output-dir,--output", output, "folder to write to [the first DIR; of a file its folder]")
        ->type_name("OUT");
    line.app()
        .add_option("--line", words, "horizontal line at a loss to compare training runs with; may be repeated")
        ->type_name("LOSS=WORDS")
        ->allow_extra_args(false);  // the next word is a DIR
  }

  int run(const Arguments& arguments) override;
};

}  // namespace

std::unique_ptr<Invocation> declare_report() { return std::make_unique<ReportVerb>(); }

int ReportVerb::run(const Arguments& arguments) {
  if (const auto status = line.parse(arguments)) return *status;

  std::vector<report::ReferenceLine> lines;
  for (const auto& word : words) lines.push_back(parse_line(word));
  const bool training =
      folders.size() > 1 || report::is_training_run(folders.front());  // result folders are read one at a time
  const auto runs =
      training || has_json(folders.front()) ? std::vector<std::string>() : train::runs_in(folders.front());
  SHADE_REQUIRE(runs.empty(), folders.front().string(),
                " is a folder of runs; name those to draw together: shade report ", join(runs, " "));
  SHADE_REQUIRE(training || std::filesystem::exists(folders.front()), "no such folder: ", folders.front().string(),
                "; expected a run of shade train, or results of shade bench, compare, plan or audit",
                nearby(folders.front()));
  SHADE_REQUIRE(training || lines.empty(), "--line is for runs of shade train; ", folders.front().string(),
                " has no metrics.jsonl");
  const auto beside = [](const std::filesystem::path& file) {
    return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  };
  const auto where = !output.empty()                                     ? std::filesystem::path(output)
                     : std::filesystem::is_regular_file(folders.front()) ? beside(folders.front())
                                                                         : folders.front();
  const bool audits = !training && report::holds_audits(folders.front());
  std::vector<report::RunDetails> details;
  if (training)
    for (const auto& folder : folders) details.push_back(run_details(folder));
  const auto report = training ? report::write_training_report(folders, lines, where, details)
                      : audits ? report::write_audit_report(folders.front(), where)
                               : report::write_report(folders.front(), where);
  std::printf("%s\n", report.summary.c_str());
  for (const auto& file : report.files) std::printf("wrote %s\n", visible(file.string()).c_str());
  for (const auto& warning : report.warnings) log::warning(warning);
  if (!line.json_file.empty()) write_output(line.json_file, report.json.dump(2) + "\n", report.readers);
  return 0;
}

}  // namespace shade::cli
