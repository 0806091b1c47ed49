// shade audit: can an observer break the claim?
#include "shade/proof/audit.h"

#include <cstdio>

#include "shade/base/error.h"
#include "shade/base/terminal.h"
#include "shade/base/without_folders.h"
#include "shade/cli/verb.h"
#include "shade/shard/choose_strategy.h"
#include "shade/train/model_states.h"
#include "shade/train/recipe.h"

namespace shade::cli {
namespace {

std::string claim(proof::Verdict verdict) {
  if (verdict == proof::Verdict::wrong) return coloured("the claim is WRONG", Colour::red);
  return verdict == proof::Verdict::stands ? "the claim stands" : "nothing is shown";
}

}  // namespace

int run_audit(const Arguments& arguments) {
  proof::Audit what;
  comm::CommConfig comm_config;
  Config config;
  what.declare(config);
  config.add("comm", comm_config);
  train::Recipe recipe;  // --config may be one: its other sections say nothing here
  Config recipe_config;
  recipe.declare(recipe_config);
  config.read_also(recipe_config);
  CommandLine line(
      "audit",
      "A white-box audit of one private step: an observer who sees the whole noisy sum tells whether a "
      "canary was in the batch.\nWhat he achieves bounds epsilon from below; above the claim, the claim is "
      "wrong (exit status 1).",
      "shade audit --ranks 2 --shard zero3\n  shade audit --fault half_noise      (must fail)");
  line.add(config);
  if (const auto status = line.parse(arguments)) return *status;
  SHADE_REQUIRE(recipe.budget.target_epsilon == 0 || config.given("dp.sigma"),
                "the recipe states target_epsilon, from which shade train finds sigma by its data and steps; state "
                "--sigma (shade account finds it)");
  const auto place = expected_place(line);
  what.audit.use_folder();
  const auto strategy = shard::choose_strategy(what.shard, config, place.size);
  if (!on_gpus(comm_config))
    train::require_memory(
        train::model_states(models::size_of(what.audit.model, what.sizes, what.audit.options()),
                            {.shard = what.shard, .optim = {}, .ranks = place.size, .local_ranks = place.local_size}));
  if (const auto status = start_ranks(line, "audit", arguments, comm_config)) return *status;
  bool pass = false;
  in_world(line.ranks, comm_config, [&](comm::World& world) {
    use_threads(1, {});  // a small model: a second thread only waits
    say_device(world);
    if (world.rank() == 0 && !strategy.empty()) std::printf("%s\n", strategy.c_str());
    const auto result = proof::audit(world, what);
    pass = result.pass();
    if (world.rank() != 0) return;
    Table table({"", "mu", "epsilon"});
    table.add({"claimed", significant(result.claimed_mu, 4), significant(result.claimed_epsilon, 4)});
    table.add({"at least", significant(result.lower_mu, 4), significant(result.lower_epsilon, 4)});
    std::printf(
        "%s\nsigma %g, %s; delta %g; %lld runs of each world: %lld false alarms, %lld misses; the canary is %s clip "
        "norms\n%s%s%s\n",
        table.str().c_str(), what.dp.sigma, to_string(what.audit.dtype).c_str(), what.audit.delta,
        static_cast<long long>(result.runs), static_cast<long long>(result.false_alarms),
        static_cast<long long>(result.misses), significant(result.canary, 4).c_str(), claim(result.verdict()).c_str(),
        result.pass() ? "" : ": ", result.why().c_str());
    if (line.json_file.empty()) return;
    auto json = result.json();
    json["config"] = without_folders(config.json());
    write_json(line.json_file, json);
  });
  return pass ? 0 : 1;
}

}  // namespace shade::cli
