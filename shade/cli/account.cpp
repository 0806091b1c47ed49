// shade account: the epsilon of a run or of mixed events, or the noise for an epsilon.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "shade/accounting/calibrate.h"
#include "shade/accounting/events.h"
#include "shade/base/json.h"
#include "shade/base/terminal.h"
#include "shade/base/visible_text.h"
#include "shade/cli/verb.h"

namespace shade::cli {
namespace {

using privacy::Accountant;

struct AccountConfig {
  double sigma = 0;
  double target_epsilon = 0;
  double sample_rate = 0;
  int64_t steps = 0;
  double delta = 1e-5;
  Accountant accountant = Accountant::prv;
  privacy::Sampler sampler = privacy::Sampler::poisson;
  int64_t max_batch = 0;
  int64_t population = 0;
  privacy::PrivacyUnit privacy_unit = privacy::PrivacyUnit::record;
  std::string events;

  void declare(Fields& f) {
    f.add("sigma", sigma,
          {.help = "noise multiplier: standard deviation of the noise divided by the clip norm; alternatively "
                   "--target-epsilon",
           .flags = {"--sigma", "--noise-multiplier"}});
    f.add("target_epsilon", target_epsilon,
          {.help = "epsilon to stay within, from which sigma is computed", .flags = {"--target-epsilon", "--epsilon"}});
    f.add(
        "sample_rate", sample_rate,
        {.help =
             "probability that a record is in a step's batch; for users, expected users per batch divided by all users",
         .flags = {"--sample-rate", "--rate"}});
    f.add("steps", steps, {.help = "number of optimizer steps", .flags = {"--steps"}});
    f.add("delta", delta,
          {.help = "probability that the epsilon guarantee fails; choose it below 1 / number of records or users",
           .flags = {"--delta", "--target-delta"}});
    f.add("accountant", accountant, {.help = "accountant whose epsilon is the result", .flags = {"--accountant"}});
    f.add("sampler", sampler, {.help = "sampler that draws the batches", .flags = {"--sampler"}});
    f.add("max_batch", max_batch,
          {.help = "largest batch of the truncated_poisson sampler; larger draws are cut to this size",
           .unit = "samples",
           .flags = {"--max-batch"},
           .needs = {{"account.sampler", {"truncated_poisson"}}}});
    f.add("privacy_unit", privacy_unit,
          {.help = "unit that batches are drawn from and epsilon protects", .flags = {"--privacy-unit"}});
    f.add("population", population,
          {.help = "upper bound on the number of records, for the truncated_poisson sampler",
           .unit = "samples",
           .flags = {"--population"},
           .needs = {{"account.sampler", {"truncated_poisson"}}}});
    f.add("events", events,
          {.help = "JSON file of mixed steps in place of one run: a list of objects with sigma, sample_rate and steps, "
                   "or the output of shade ledger --json, whose delta is then the default",
           .flags = {"--events"}});
  }

  privacy::Steps run() const {
    return {{.sampler = sampler,
             .sample_rate = sample_rate,
             .noise_multiplier = sigma,
             .max_batch = max_batch,
             .population = population},
            steps};
  }
};

struct Asked {
  std::vector<privacy::Steps> steps;
  Table table{{"sigma", "sample rate", "steps", "sampler", "run"}};  // of a file
};

Asked from_file(AccountConfig& account, const CommandLine& line) {
  for (const auto* key : {"sigma", "target_epsilon", "sample_rate", "steps", "sampler", "max_batch", "population"})
    SHADE_REQUIRE(!line.given(text("account.", key)),
                  "--events has sigma, sample_rate, steps and sampler of every event, ", "and '", key,
                  "' is given too; drop one of them");
  SHADE_REQUIRE(std::filesystem::exists(account.events), "there is no file ", account.events,
                "; expected a JSON list of events, or what shade ledger FILE --json writes");
  privacy::EventList list;
  try {
    list = privacy::events_in(read_json(account.events));
  } catch (const UsageError& fault) {
    throw UsageError(text(account.events, ": ", fault.what()));
  }
  if (list.delta && !line.given("account.delta")) account.delta = *list.delta;
  SHADE_REQUIRE(!list.unit() || !line.given("account.privacy_unit") || *list.unit() == account.privacy_unit,
                account.events, ": its events protect one ", to_string(*list.unit()), ", and --privacy-unit is ",
                to_string(account.privacy_unit), "; drop it");
  account.privacy_unit = list.unit().value_or(account.privacy_unit);
  Asked out{.steps = list.steps()};
  for (const auto& [steps, unit, unit_by, run] : list.events)
    out.table.add({significant(steps.mechanism.noise_multiplier, 6), significant(steps.mechanism.sample_rate, 6),
                   std::to_string(steps.count), to_string(steps.mechanism.sampler), visible(run, 60)});
  account.steps = 0;
  for (const auto& steps : out.steps) account.steps += steps.count;
  return out;
}

Asked from_options(AccountConfig& account, const CommandLine& line) {
  SHADE_REQUIRE(!line.given("account.sigma") || account.sigma != 0,
                "--sigma 0 adds no noise, so there is no epsilon; expected 0.01 to 1e+06");
  SHADE_REQUIRE((account.sigma != 0) != (account.target_epsilon != 0),
                "expected either --sigma (to get epsilon) or --target-epsilon (to get sigma), found ",
                account.sigma != 0 ? "both" : "neither", "; or --events FILE for mixed steps");
  SHADE_REQUIRE(account.steps > 0, "no number of steps; set --steps N, at least 1");
  if (account.sigma == 0)
    account.sigma = privacy::calibrate(account.accountant, account.run(), account.target_epsilon, account.delta).sigma;
  return {.steps = {account.run()}};
}

// Batch and records are what shade train has; here their quotient is an option.
void require_rate(const Arguments& arguments) {
  std::optional<double> batch, records;
  std::string option;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto given = given_at(arguments, i);
    const bool is_batch = given.option == "--batch-size" || given.option == "--global-batch-size";
    const bool is_records = given.option == "--records" || given.option == "--dataset-size";
    if (!is_batch && !is_records) continue;
    (is_batch ? batch : records) = parse_real(given.value.value_or(""));
    option = given.option;
  }
  if (option.empty()) return;
  const bool known = batch && records && *batch > 0 && *batch <= *records;
  throw UsageError(text("there is no ", option, " here: the sampling rate is the batch size divided by the number of ",
                        "records (or users): --rate ", known ? significant(*batch / *records, 6) : "R",
                        known ? text(" for ", *batch, " of ", *records) : ""));
}

std::string nature(const privacy::Spent& spent) {
  if (!spent.upper_bound) return "diagnostic only: " + spent.warning;
  const auto order = spent.order ? text("upper bound, Renyi order ", *spent.order) : "upper bound";
  return spent.warning.empty() ? order : order + "; " + spent.warning;
}

struct Account final : LineVerb {
  AccountConfig account;
  Config config;

  Account()
      : LineVerb("account",
                 "The epsilon of noisy steps on sampled batches, of one kind or of several, by three accountants; or "
                 "the sigma "
                 "for a target epsilon.\nEpsilon holds for: " +
                     adjacency(privacy::PrivacyUnit::record) + ", or the unit of --privacy-unit.",
                 "shade account --sigma 1.5 --rate 0.04 --steps 2250 --delta 1e-5\n"
                 "  shade account --target-epsilon 8 --rate 0.04 --steps 2250 --delta 1e-5 --json out.json\n"
                 "  shade account --events events.json --delta 1e-6") {
    config.add("account", account);
    line.add(config);
  }

  int run(const Arguments& arguments) override;
};

}  // namespace

std::unique_ptr<Invocation> declare_account() { return std::make_unique<Account>(); }

int Account::run(const Arguments& arguments) {
  require_rate(arguments);
  if (const auto status = line.parse(arguments)) return *status;
  SHADE_REQUIRE(!line.ranks || *line.ranks == 1, "accounting needs one process; drop --ranks");
  line.require_effects();
  const bool mixed = !account.events.empty();
  const auto asked = mixed ? from_file(account, line) : from_options(account, line);
  const auto& steps = asked.steps;
  const auto result = privacy::spent(account.accountant, steps, account.delta);
  const bool all_poisson = std::all_of(
      steps.begin(), steps.end(), [](const auto& of) { return of.mechanism.sampler == privacy::Sampler::poisson; });

  Json json{{"epsilon", result.epsilon},
            {"delta", result.delta},
            {"accountant", to_string(result.accountant)},
            {"steps", account.steps},
            {"privacy_unit", to_string(account.privacy_unit)},
            {"adjacency", adjacency(account.privacy_unit)},
            {"upper_bound", result.upper_bound},
            {"accountants", Json::object()},
            {"config", json_values(config)}};
  if (mixed) {
    for (const auto& [mechanism, count] : steps) {
      json["events"].push_back(mechanism_json(mechanism));
      json["events"].back()["steps"] = count;
    }
  } else {
    json["sigma"] = account.sigma;
    json["sample_rate"] = account.sample_rate;
    json["sampler"] = to_string(account.sampler);
  }
  Table table({"accountant", "epsilon", "what it is"});
  for (const auto accountant : {Accountant::prv, Accountant::rdp, Accountant::gdp}) {
    if (accountant == Accountant::gdp && !all_poisson) continue;  // it has no answer
    const auto spent = accountant == account.accountant ? result : privacy::spent(accountant, steps, account.delta);
    table.add({to_string(accountant), rounded_up(spent.epsilon), nature(spent)});
    Json row{{"epsilon", spent.epsilon}, {"upper_bound", spent.upper_bound}};
    if (spent.order) row["order"] = *spent.order;
    if (!spent.warning.empty()) row["warning"] = spent.warning;
    json["accountants"][to_string(accountant)] = row;
  }
  if (account.target_epsilon != 0)
    std::printf("sigma %s keeps epsilon at or below %g\n", rounded_up(account.sigma).c_str(), account.target_epsilon);
  std::printf("epsilon %s at delta %g by %s%s\n\n%s", rounded_up(result.epsilon).c_str(), result.delta,
              to_string(result.accountant).c_str(), result.upper_bound ? "" : " (a diagnostic, not a guarantee)",
              table.str().c_str());
  if (mixed)
    std::printf("\n%s\n%lld steps in all; epsilon holds for: %s\n", asked.table.str().c_str(),
                static_cast<long long>(account.steps), adjacency(account.privacy_unit).c_str());
  else
    std::printf("\nsigma %s, sample rate %g, %lld steps, %s sampling; epsilon holds for: %s\n",
                rounded_up(account.sigma).c_str(), account.sample_rate, static_cast<long long>(account.steps),
                to_string(account.sampler).c_str(), adjacency(account.privacy_unit).c_str());
  if (!line.json_file.empty()) write_json(line.json_file, json);
  return 0;
}

}  // namespace shade::cli
