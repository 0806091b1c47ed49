// shade ledger: the budget of a data set: made, and shown.
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "shade/accounting/accountant.h"
#include "shade/accounting/events.h"
#include "shade/base/files.h"
#include "shade/base/program_path.h"
#include "shade/base/terminal.h"
#include "shade/base/visible_text.h"
#include "shade/cli/verb.h"
#include "shade/train/budget/data_ledger.h"
#include "shade/train/run/run_folder.h"

namespace shade::cli {
namespace {

using privacy::Accountant;

struct LedgerConfig {
  bool create = false;
  privacy::Cap cap;

  void declare(Fields& f) {
    f.add("create", create,
          {.help = "whether to create FILE, with the cap given by --epsilon and --delta", .flags = {"--create"}});
    f.add("epsilon", cap.epsilon,
          {.help = "cap on the epsilon that all runs may spend together",
           .flags = {"--epsilon"},
           .needs = {{"ledger.create"}}});
    f.add("delta", cap.delta,
          {.help = "probability that the epsilon guarantee fails; choose it below 1 / number of records or users",
           .flags = {"--delta"},
           .needs = {{"ledger.create"}}});
  }
};

// Steps of one run with one mechanism, of all its stretches.
struct Spent {
  std::string run, date;
  privacy::Steps steps;
};

std::vector<Spent> by_run(const train::DataBooks& books) {
  std::vector<Spent> out;
  for (const auto& entry : books.entries) {
    const auto same = std::find_if(out.begin(), out.end(), [&](const Spent& s) {
      return s.run == entry.spender.run && s.steps.mechanism == entry.spender.mechanism;
    });
    if (same == out.end())
      out.push_back({entry.spender.run, entry.date, {entry.spender.mechanism, entry.steps}});
    else
      same->steps.count += entry.steps;
  }
  return out;
}

Json books_json(const train::DataBooks& books, const std::vector<Spent>& runs) {
  const auto filter = books.filter();
  Json out{{"id", books.id},           {"epsilon", books.cap.epsilon},
           {"delta", books.cap.delta}, {"used", filter ? filter->position() : 0.0},
           {"events", Json::array()},  {"left", Json::array()}};
  if (!books.entries.empty()) {
    const auto& first = books.entries.front().spender;
    out["unit"] = to_string(first.unit);
    if (!first.unit_by.empty()) out["unit_by"] = first.unit_by;
    out["adjacency"] = adjacency(first.unit);
  }
  const auto steps = books.spent();
  for (const auto accountant : {Accountant::prv, Accountant::rdp})
    out["planned_ahead"][to_string(accountant)] = privacy::spent(accountant, steps, books.cap.delta).epsilon;
  for (const auto& [run, date, spent] : runs) {
    auto event = mechanism_json(spent.mechanism);
    event["steps"] = spent.count;
    event["run"] = run;
    out["events"].push_back(event);
  }
  for (const auto& [mechanism, count] : steps) {
    out["left"].push_back(mechanism_json(mechanism));
    out["left"].back()["steps"] = books.allowed(mechanism, privacy::kMaxSteps);
  }
  for (const auto& [order, share] : books.orders) out["orders"].push_back({order, share});
  return out;
}

std::string run_label(const std::string& run) { return visible(std::filesystem::path(run).filename().string(), 60); }

void print(const train::DataBooks& books, const std::vector<Spent>& runs, const Json& json) {
  const double delta = books.cap.delta;
  std::printf("cap: epsilon %g at delta %g\n", books.cap.epsilon, delta);
  if (runs.empty()) {
    std::printf("nothing was spent\n");
    return;
  }
  const auto& first = books.entries.front().spender;
  std::printf("unit: %s%s\n\n", adjacency(first.unit).c_str(),
              first.unit_by.empty() ? "" : text(" (", visible(first.unit_by, 80), ")").c_str());
  Table table({"run", "since", "sigma", "sample rate", "steps", "epsilon alone"});
  for (const auto& [run, date, steps] : runs)
    table.add({run_label(run), visible(date, 30), significant(steps.mechanism.noise_multiplier, 6),
               significant(steps.mechanism.sample_rate, 6), std::to_string(steps.count),
               rounded_up(privacy::spent(Accountant::prv, {&steps, 1}, delta).epsilon)});
  std::printf("%s\n", table.str().c_str());
  std::printf("used %s of epsilon %g: the Renyi filter, valid for runs that were chosen by the results of others\n",
              rounded_up(json["used"].get<double>()).c_str(), books.cap.epsilon);
  std::printf("if all runs had been planned ahead: epsilon %s by prv, %s by rdp\n",
              rounded_up(json["planned_ahead"]["prv"].get<double>()).c_str(),
              rounded_up(json["planned_ahead"]["rdp"].get<double>()).c_str());
  for (const auto& left : json["left"])
    std::printf("left: %lld steps with sigma %g at sample rate %g\n",
                static_cast<long long>(left["steps"].get<int64_t>()), left["sigma"].get<double>(),
                left["sample_rate"].get<double>());
}

// A run's own books are not a data ledger; which one it spent from is in its recipe.
std::string of_folder(const std::string& folder) {
  const auto path = (std::filesystem::path(folder) / "").parent_path();
  if (!std::filesystem::exists(path / train::kRecipeFile))
    return text(folder, " is a folder; expected the file that shade ledger --create makes");
  const auto data = train::recipe_of({.run = path, .checkpoint = {}}).budget.data_ledger;
  return text(folder, " is a run of shade train; ",
              data.empty() ? "it spent from no data ledger (--data-ledger FILE)" : text("its data ledger is ", data),
              ", and shade report ", folder, " shows its own epsilon");
}

struct LedgerVerb final : LineVerb {
  LedgerConfig ledger;
  Config config;
  std::string file;

  LedgerVerb()
      : LineVerb(
            "ledger",
            "What private runs have spent of a data set (shade train --data-ledger FILE), and what its cap leaves.",
            "shade ledger --create wiki.ledger --epsilon 8 --delta 1e-7\n"
            "  shade ledger wiki.ledger --json wiki.json && shade account --events wiki.json") {
    config.add("ledger", ledger);
    line.add(config);
    line.app().add_option("FILE", file, "data ledger")->required();
  }

  int run(const Arguments& arguments) override;
};

}  // namespace

std::unique_ptr<Invocation> declare_ledger() { return std::make_unique<LedgerVerb>(); }

int LedgerVerb::run(const Arguments& arguments) {
  if (const auto status = line.parse(arguments)) return *status;
  SHADE_REQUIRE(!line.ranks || *line.ranks == 1, "a data ledger needs one process; drop --ranks");
  const bool capped = line.given("ledger.epsilon") && line.given("ledger.delta");
  SHADE_REQUIRE(!ledger.create || capped, "--create needs the cap: --epsilon and --delta");
  line.require_effects();
  SHADE_REQUIRE(ledger.create || std::filesystem::exists(file), "there is no data ledger ", file,
                "; create it once for a data set: shade ledger --create ", file, " --epsilon E --delta D",
                nearby(file));
  SHADE_REQUIRE(ledger.create || !std::filesystem::is_directory(file), of_folder(file));
  if (ledger.create) train::DataLedger::create(file, ledger.cap);
  const auto books = train::DataLedger(file).read();
  const auto runs = by_run(books);
  const auto json = books_json(books, runs);
  print(books, runs, json);
  if (!line.json_file.empty()) write_output(line.json_file, json.dump(2) + "\n", Readers::owner);
  return 0;
}

}  // namespace shade::cli
