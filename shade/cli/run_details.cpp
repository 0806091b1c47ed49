#include "shade/cli/run_details.h"

#include "shade/base/effect.h"
#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/base/visible_text.h"
#include "shade/base/without_folders.h"
#include "shade/train/privacy_statement.h"
#include "shade/train/run_folder.h"

namespace shade::cli {
namespace {

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

}  // namespace

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

}  // namespace shade::cli
