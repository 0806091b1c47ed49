#include "shade/train/spending.h"

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/checkpoint/agreement.h"

namespace shade::train {
namespace {

// What the accountant asks, and what a statement says of such steps beside it.
Json ledger_event(const privacy::PrivacyEvent& event, const Recipe& recipe) {
  auto out = event_json(event, recipe.dp.seed().has_value());
  out["clip_style"] = to_string(recipe.dp.clip_style);
  if (event.unit == privacy::PrivacyUnit::user) out["max_records_per_user"] = recipe.budget.max_records_per_user;
  return out;
}

}  // namespace

Spending::Spending(const Recipe& recipe, const privacy::PrivacyEvent& event, RunFolder& folder,
                   const comm::Group& control, bool replayable, const std::string& windows)
    : recipe_(&recipe),
      event_(event),
      folder_(&folder),
      control_(control),
      history_(folder, control, {.seed = recipe.dp.seed(), .replayable = replayable}),
      last_(recipe.train.steps) {
  if (const auto& file = recipe.budget.data_ledger; !file.empty())
    data_.emplace(file,
                  Spender{.run = std::filesystem::weakly_canonical(folder.path()).string(),
                          .stretch = {},
                          .mechanism = event.mechanism,
                          .unit = event.unit,
                          .unit_by = event.unit == privacy::PrivacyUnit::window ? text(event.unit_by, ", ", windows)
                                                                                : event.unit_by},
                  control, history_);
}

void Spending::look(const std::string& exact, const std::optional<checkpoint::Origin>& from, int64_t saved) {
  const bool seeded = recipe_->dp.seed().has_value();
  const auto known = history_.look(exact, ledger_event(event_, *recipe_), from);
  made_ = known.made;
  const auto unstated = [&] { return std::string(folder_->was_packed() ? "window" : "record"); };
  const auto earlier = earlier_steps(known.spent, event_, seeded, unstated);
  spent_ = earlier.count;
  no_epsilon_ = train::no_epsilon(*recipe_);
  const auto undone = !no_epsilon_.empty() ? no_epsilon_ : seeded ? "the noise has a seed" : earlier.other_unit;
  SHADE_REQUIRE(undone.empty() || earlier.protected_steps == 0, "the run in ", folder_->path().string(), " has made ",
                earlier.protected_steps, " steps that have an epsilon; more steps would undo that: ", undone,
                ". Choose another directory (--output)");
  if (no_epsilon_.empty()) no_epsilon_ = earlier.no_epsilon;
  if (no_epsilon_.empty()) {
    budget_.emplace(event_, recipe_->budget, earlier.steps, known.made);
    last_ =
        std::stoll(checkpoint::from_rank0(control_, "the budget", [&] { return std::to_string(budget_->allowed()); }));
  } else {
    SHADE_REQUIRE(recipe_->budget.max_epsilon == 0, "no epsilon can be kept here: ", no_epsilon_,
                  "; choose another run directory (--output)");
  }
  if (saved <= 0 && spent_ > made_) require_restart();
  if (data_)
    last_ = data_->look(made_, last_);
  else
    require_no_data_ledger(control_, history_);
}

void Spending::spend(int64_t step, const checkpoint::SumDigest& sum) {
  SHADE_CHECK(!data_ || data_->is_reserved(step), "step ", step, " is not counted in the data ledger");
  history_.spend(step, sum);
}

// Steps that can neither be continued nor made again to the bit would be spent a second time.
void Spending::require_restart() const {
  SHADE_REQUIRE(recipe_->train.restart, "the ledger ", folder_->ledger().string(), " has ", spent_, " steps",
                budget_ ? text(" (epsilon ", rounded_up(budget_->after(0).epsilon), ")") : "",
                ", and no checkpoint of them is left. ",
                made_ > 0 ? text("Only ", made_, " of them can") : "They can't",
                " be repeated, since settings, data, ranks, program or key have changed: steps from the beginning "
                "would be spent in addition. Restore the checkpoints, "
                "choose another directory (--output), or accept that with --restart");
}

std::string Spending::forget_key(int64_t steps, bool keep) {
  if (steps < made_) return text("the noise key stays: the ledger has ", made_, " steps, which can be repeated");
  const auto gone = checkpoint::from_rank0(control_, "deleting the key", [&] {
    if (keep) return std::string(folder_->find_key() ? "kept" : "");
    return std::string(folder_->destroy_key() ? "deleted" : "");
  });
  if (gone == "deleted")
    return "the noise key was deleted: the noise can no longer be subtracted, and further steps get a new key";
  if (gone == "kept")
    return text("the noise key stays in ", (folder_->path() / "key").string(),
                " (--keep-key): anyone who reads it can subtract the noise");
  return {};
}

}  // namespace shade::train
