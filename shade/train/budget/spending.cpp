#include "shade/train/budget/spending.h"

#include <algorithm>

#include "shade/base/error.h"
#include "shade/base/span.h"
#include "shade/base/strings.h"
#include "shade/checkpoint/agreement.h"

namespace shade::train {
namespace {

// What the accountant asks, and what a statement says of such steps beside it.
Json ledger_event(const privacy::PrivacyEvent& event, const Recipe& recipe) {
  auto out = event_json(event, recipe.dp.seed().has_value());
  out["clip_style"] = to_string(recipe.dp.clip.style);
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
      last_(recipe.work.steps) {
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
  const auto earlier = earlier_steps(known.spent, event_, seeded);
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

namespace {

constexpr int64_t kBlocks = 64;

std::string standing(const std::string& file, const DataBooks& books) {
  const auto filter = books.filter();
  return text("data ledger ", file, ": ", rounded_up(filter ? filter->position() : 0), " of epsilon ",
              books.cap.epsilon, " at delta ", books.cap.delta, " used by all runs (Renyi filter)");
}

}  // namespace

DataSpending::DataSpending(std::string file, Spender spender, comm::Group control, History& history)
    : file_(std::move(file)), spender_(std::move(spender)), control_(std::move(control)), history_(&history) {}

int64_t DataSpending::look(int64_t made, int64_t last) {
  made_ = reserved_ = made;
  last_ = last;
  const auto found = Json::parse(checkpoint::from_rank0(control_, "reading the data ledger", [&] {
    Json out;
    read_on_rank0(out);
    return out.dump();
  }));
  standing_ = found.at("words");
  last_ = std::min(last, made + found.at("room").get<int64_t>());
  return last_;
}

void DataSpending::read_on_rank0(Json& found) {
  SHADE_REQUIRE(std::filesystem::exists(file_), "there is no data ledger ", file_,
                "; create it once for these data: shade ledger --create ", file_, " --epsilon E --delta D");
  ledger_.emplace(file_);
  const auto before = history_->remembered();
  if (!before.is_null()) ledger_->remember({before.at("line"), before.at("digest")});
  // Another ledger has other lines; that it is another one is said before that it lost some.
  id_ = DataLedger(file_).read().id;
  SHADE_REQUIRE(before.is_null() || before.at("id") == id_, "this run spends from the data ledger ",
                before.at("file").get<std::string>(), ", and ", file_,
                " is another one; name that one, or choose another ", "directory (--output)");
  require_counted(ledger_->read());
  const auto books = ledger_->read();
  try {
    books.require_unit(spender_.unit, spender_.unit_by);
  } catch (const UsageError& fault) {
    throw UsageError(text("the data ledger ", file_, ": ", fault.what()));
  }
  const auto wanted = std::max<int64_t>(0, last_ - made_);
  const auto room = books.allowed(spender_.mechanism, wanted);
  SHADE_REQUIRE(wanted == 0 || room > 0 || made_ > 0, standing(file_, books),
                ", which leaves no budget for a step with sigma ", spender_.mechanism.noise_multiplier,
                " at sample rate ", spender_.mechanism.sample_rate,
                ". Nothing was trained. More noise or a smaller rate may fit (shade ledger ", file_, ")");
  found = {{"room", room}, {"words", standing(file_, books)}};
}

// Steps of this run that the file doesn't have were made without it, or it lost them.
void DataSpending::require_counted(const DataBooks& books) {
  for (const auto& [mark, steps] : history_->counted()) {
    if (steps == 0) continue;
    const auto* entry = books.find(mark);
    // A line of the run's ledger that was torn counts as whole there, and as more than one if it was long.
    if (entry != nullptr && entry->steps < steps && !entry->closed) {
      auto spender = entry->spender;
      if (ledger_->reserve(spender, steps) >= steps) continue;
    }
    SHADE_REQUIRE(entry != nullptr && entry->steps >= steps, "the run has made ", steps,
                  " steps of which the data ledger ", file_, " has ", entry == nullptr ? 0 : entry->steps,
                  ": they were made without it, or it lost them. Choose another directory (--output), or restore the "
                  "newest copy of the data ledger");
  }
}

void DataSpending::remember_end() {
  const auto& end = ledger_->end();
  history_->remember({{"file", file_}, {"id", id_}, {"line", end.line}, {"digest", end.digest}});
}

bool DataSpending::reserve(int64_t step) {
  if (step < reserved_) return true;
  const Span span(SpanName::ledger);
  const auto block = std::max<int64_t>(1, (last_ - made_ + kBlocks - 1) / kBlocks);
  const auto wanted = std::max(step + 1, std::min(last_, step + block)) - made_;
  reserved_ = made_ + std::stoll(checkpoint::from_rank0(control_, "reserving steps in the data ledger", [&] {
                spender_.stretch = history_->origin(made_ + 1).value().mark;
                const auto reserved = ledger_->reserve(spender_, wanted);
                remember_end();
                return std::to_string(reserved);
              }));
  return step < reserved_;
}

std::string DataSpending::settle(int64_t steps) {
  return checkpoint::from_rank0(control_, "closing the steps in the data ledger", [&] {
    if (reserved_ > std::max(steps, made_)) {
      ledger_->close(spender_.stretch, std::max<int64_t>(0, steps - made_));
      remember_end();
    }
    return standing(file_, ledger_->read());
  });
}

void require_no_data_ledger(const comm::Group& control, const History& history) {
  checkpoint::from_rank0(control, "looking for a data ledger", [&] {
    const auto before = history.remembered();
    SHADE_REQUIRE(before.is_null(), "this run spends from the data ledger ", before.value("file", ""),
                  ", and none is named; add --data-ledger, or choose another directory (--output)");
    return std::string();
  });
}

}  // namespace shade::train
