// shade account: the epsilon of a run, or the noise for an epsilon.
#include <cmath>
#include <cstdio>

#include "shade/base/terminal.h"
#include "shade/cli/verb.h"
#include "shade/privacy/accounting/calibrate.h"

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

  void declare(Fields& f) {
    f.add("sigma", sigma,
          {.help = "noise over clip norm; or give --target-epsilon", .flags = {"--sigma", "--noise-multiplier"}});
    f.add("target_epsilon", target_epsilon,
          {.help = "find the sigma that keeps this epsilon", .flags = {"--target-epsilon", "--epsilon"}});
    f.add("sample_rate", sample_rate,
          {.help = "chance of a record (of a user: expected users of a batch over all users) to be in a step's batch",
           .flags = {"--sample-rate", "--rate"}});
    f.add("steps", steps, {.help = "optimizer steps", .flags = {"--steps"}});
    f.add("delta", delta,
          {.help = "probability that epsilon doesn't hold, below 1 / number of records, or of users",
           .flags = {"--delta", "--target-delta"}});
    f.add("accountant", accountant, {.help = "whose answer is the result", .flags = {"--accountant"}});
    f.add("sampler", sampler, {.help = "how batches are drawn", .flags = {"--sampler"}});
    f.add("max_batch", max_batch,
          {.help = "truncated_poisson: larger batches are cut to it", .unit = "samples", .flags = {"--max-batch"}});
    f.add("privacy_unit", privacy_unit,
          {.help = "what a batch is drawn from and epsilon protects", .flags = {"--privacy-unit"}});
    f.add("population", population,
          {.help = "truncated_poisson: at most so many records", .unit = "samples", .flags = {"--population"}});
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

std::string nature(const privacy::Spent& spent) {
  if (!spent.upper_bound) return "diagnostic only: " + spent.warning;
  const auto order = spent.order ? text("upper bound, Renyi order ", *spent.order) : "upper bound";
  return spent.warning.empty() ? order : order + "; " + spent.warning;
}

}  // namespace

int run_account(const Arguments& arguments) {
  AccountConfig account;
  Config config;
  config.add("account", account);
  CommandLine line("account",
                   "The epsilon of a run of noisy steps on sampled batches, by three accountants; or the sigma for a "
                   "target epsilon.\nEpsilon holds for: " +
                       adjacency(privacy::PrivacyUnit::record) + ", or what --privacy-unit says.",
                   "shade account --sigma 1.5 --rate 0.04 --steps 2250 --delta 1e-5\n"
                   "  shade account --target-epsilon 8 --rate 0.04 --steps 2250 --delta 1e-5 --json out.json");
  line.add(config);
  if (const auto status = line.parse(arguments)) return *status;
  SHADE_REQUIRE(!line.ranks || *line.ranks == 1, "accounting needs one process; drop --ranks");
  SHADE_REQUIRE((account.sigma != 0) != (account.target_epsilon != 0),
                "expected either --sigma (to get epsilon) or --target-epsilon (to get sigma), found ",
                account.sigma != 0 ? "both" : "neither");
  SHADE_REQUIRE(account.steps > 0, "number of steps ", account.steps, " is out of range; expected at least 1: --steps");

  if (account.sigma == 0)
    account.sigma = privacy::calibrate(account.accountant, account.run(), account.target_epsilon, account.delta).sigma;
  const auto run = account.run();
  const auto result = privacy::spent(account.accountant, {&run, 1}, account.delta);

  Json json{{"epsilon", result.epsilon},
            {"delta", result.delta},
            {"accountant", to_string(result.accountant)},
            {"sigma", account.sigma},
            {"sample_rate", account.sample_rate},
            {"steps", account.steps},
            {"sampler", to_string(account.sampler)},
            {"privacy_unit", to_string(account.privacy_unit)},
            {"adjacency", adjacency(account.privacy_unit)},
            {"upper_bound", result.upper_bound},
            {"accountants", Json::object()},
            {"config", config.json()}};
  Table table({"accountant", "epsilon", "what it is"});
  for (const auto accountant : {Accountant::prv, Accountant::rdp, Accountant::gdp}) {
    if (accountant == Accountant::gdp && account.sampler != privacy::Sampler::poisson) continue;  // it has no answer
    const auto spent = accountant == result.accountant ? result : privacy::spent(accountant, {&run, 1}, account.delta);
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
  std::printf("\nsigma %s, sample rate %g, %lld steps, %s sampling; epsilon holds for: %s\n",
              rounded_up(account.sigma).c_str(), account.sample_rate, static_cast<long long>(account.steps),
              to_string(account.sampler).c_str(), adjacency(account.privacy_unit).c_str());
  if (!line.json_file.empty()) write_json(line.json_file, json);
  return 0;
}

}  // namespace shade::cli
