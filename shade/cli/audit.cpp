// shade audit: can an observer break the claim?
#include "shade/proof/audit.h"

#include <cstdio>

#include "shade/base/error.h"
#include "shade/base/output_file.h"
#include "shade/base/terminal.h"
#include "shade/base/without_folders.h"
#include "shade/cli/audit_finished.h"
#include "shade/cli/verb.h"
#include "shade/proof/audit_canaries.h"
#include "shade/proof/audit_training.h"
#include "shade/shard/choose_strategy.h"
#include "shade/train/model_states.h"
#include "shade/train/recipe.h"

namespace shade::cli {
namespace {

std::string claim(proof::Verdict verdict) {
  switch (verdict) {
    case proof::Verdict::wrong: return coloured("the claim is WRONG", Colour::red);
    case proof::Verdict::stands: return "the claim stands";
    case proof::Verdict::not_refuted: return "the claim is not refuted";
    case proof::Verdict::nothing: break;
  }
  return "nothing is shown";
}

template <class Result>
std::string ending(const Result& result) {
  const auto why = result.why();
  return text(claim(result.verdict()), why.empty() ? "" : ": ", why);
}

template <class Result>
std::string assumptions(const Result& result) {
  std::string out = "assumed:";
  for (const auto& line : result.assumes()) out += text("\n- ", line);
  return out;
}

void print(const proof::AuditResult& result, const proof::Audit& what) {
  Table table({"", "mu", "epsilon"});
  table.add({"claimed", significant(result.claimed_mu, 4), significant(result.claimed_epsilon, 4)});
  table.add({"at least", significant(result.lower_mu, 4), significant(result.lower_epsilon, 4)});
  std::printf(
      "%s\n%s\n%s\n%s\n", table.str().c_str(),
      text("sigma ", what.dp.sigma, ", ", to_string(what.audit.dtype), "; delta ", result.delta, ", confidence ",
           result.confidence, "; ", result.runs, " runs of each world: ", result.false_alarms, " false alarms, ",
           result.misses, " misses; the canary is ", significant(result.canary, 4), " clip norms")
          .c_str(),
      assumptions(result).c_str(), ending(result).c_str());
}

void print(const proof::TrainingAuditResult& result, const proof::Audit& what) {
  Table table({"", "epsilon"});
  table.add({"claimed", significant(result.claimed_epsilon, 4)});
  table.add({"at least, by the curve", significant(result.lower_epsilon, 4)});
  table.add({"at least, by the definition", significant(result.definition_epsilon, 4)});
  Table rules({"rule", "false alarms", "misses"});
  for (const auto& rule : result.rules) rules.add({rule.name, text(rule.false_alarms), text(rule.misses)});
  std::printf("%s\n%s\n%s\n%s\n%s\n", table.str().c_str(), rules.str().c_str(),
              text(result.trainings, " trainings of each world: ", result.steps, " steps, sample rate ",
                   result.sample_rate, ", sigma ", result.sigma, ", ", to_string(what.audit.dtype), "; delta ",
                   result.delta, ", confidence ", result.confidence, "; the canary is ",
                   significant(result.shortest, 4), " to ", significant(result.longest, 4), " clip norms")
                  .c_str(),
              assumptions(result).c_str(), ending(result).c_str());
}

std::string text_of(const proof::CanaryAuditResult& result) {
  Table table({"", "epsilon"});
  table.add({"claimed", significant(result.claimed_epsilon, 4)});
  table.add({"at least", significant(result.bound.epsilon, 4)});
  table.add({"at least, if all guesses were right", significant(result.bound.largest, 4)});
  const auto& guesses = result.bound.guesses;
  return text(table.str(), "\n", guesses.right, " of ", guesses.made, " guesses are right; ", result.included, " of ",
              result.canaries, " canaries are included; delta ", result.delta, ", confidence ", result.confidence, "\n",
              assumptions(result), "\n", ending(result));
}

template <class Result>
int finish(const Result& result, const CommandLine& line, const Config& config, Readers readers = Readers::by_umask) {
  if (!line.json_file.empty()) {
    auto json = result.json();
    json["config"] = without_folders(config.json());
    write_output(line.json_file, json.dump(2) + "\n", readers);
  }
  return result.pass() ? 0 : 1;
}

// What a recipe says of its training, unless the audit's own options do. A training that is repeated hundreds of times
// stays as short as it is by default.
void use_recipe(proof::AuditConfig& audit, const train::Recipe& recipe, const Config& config,
                const Config& recipe_config) {
  const auto take = [&](const char* key, const char* of, auto& into, const auto& value) {
    if (recipe_config.given(of) && !config.given(key)) into = value;
  };
  if (recipe.budget.privacy_unit == privacy::PrivacyUnit::user)
    take("audit.max_records_per_user", "dp.max_records_per_user", audit.max_records_per_user,
         recipe.budget.max_records_per_user);
  if (audit.kind == proof::AuditKind::step) return;
  take("audit.sample_rate", "dp.sample_rate", audit.sample_rate, recipe.budget.sample_rate);
  if (audit.kind != proof::AuditKind::training) take("audit.steps", "train.steps", audit.steps, recipe.train.steps);
}

}  // namespace

int run_audit(const Arguments& arguments) {
  proof::Audit what;
  FinishedModel finished;
  comm::CommConfig comm_config;
  Config config;
  what.declare(config);
  config.add("audit", finished);
  config.add("comm", comm_config);
  train::Recipe recipe;  // --config may be one: its other sections say nothing here
  Config recipe_config;
  recipe.declare(recipe_config);
  config.read_also(recipe_config);
  CommandLine line(
      "audit",
      "Audits of the privacy claim with canaries. --kind step: an observer who sees the whole noisy sum of one step "
      "decides whether a canary was in the batch; training: the same for every step of whole trainings, against the "
      "composed "
      "epsilon; one_run: many canaries in one training; model: the losses of a trained model.\nThe success of "
      "the observer gives a lower bound of epsilon. If it is above the claim, the claim is wrong (exit status 1).",
      "shade audit --ranks 2 --shard zero3\n  shade audit --fault half_noise      (must fail)\n"
      "  shade audit --kind training --lora-rank 4 --dtype bf16 --max-grad-norm 0.01\n"
      "  shade audit --kind one_run --canaries 400 --steps 8\n"
      "  shade audit --kind model --trained runs/private --included in --excluded out --claimed-epsilon 3");
  line.add(config);
  if (const auto status = line.parse(arguments)) return *status;
  line.require_effects();
  if (finished.splits()) return split_canaries(finished);
  if (finished.asked()) {
    const auto result = audit_finished(finished, what.audit);
    std::printf("%s\n", text_of(result).c_str());
    return finish(result, line, config, Readers::owner);  // what it says follows from the records of a run
  }
  SHADE_REQUIRE(recipe.budget.target_epsilon == 0 || config.given("dp.sigma"),
                "the recipe states target_epsilon, from which shade train finds sigma by its data and steps; state "
                "--sigma (shade account finds it)");
  use_recipe(what.audit, recipe, config, recipe_config);
  const auto place = expected_place(line);
  what.audit.use_folder();
  const auto strategy = shard::choose_strategy(what.shard, config, place.size);
  line.require_effects({{kModelKind, what.audit.model_kind(what.sizes)}, {kRanks, ranks_fact(place)}});
  if (!on_gpus(comm_config))
    train::require_memory(
        train::model_states(models::size_of(what.audit.model, what.sizes, what.audit.options()),
                            {.shard = what.shard, .optim = {}, .ranks = place.size, .local_ranks = place.local_size}));
  if (const auto status = start_ranks(line, "audit", arguments, comm_config)) return *status;
  int status = 1;
  in_world(line.ranks, comm_config, [&](comm::World& world) {
    use_threads(1, {});  // a small model: a second thread only waits
    say_device(world);
    if (world.rank() == 0 && !strategy.empty()) std::printf("%s\n", strategy.c_str());
    const auto say = [&](const auto& result, const auto& printed) {
      if (world.rank() == 0) printed(result);
      status = world.rank() == 0 ? finish(result, line, config) : result.pass() ? 0 : 1;
    };
    switch (what.audit.kind) {
      case proof::AuditKind::step:
        return say(proof::audit(world, what), [&](const auto& result) { print(result, what); });
      case proof::AuditKind::training:
        return say(proof::audit_training(world, what), [&](const auto& result) { print(result, what); });
      case proof::AuditKind::one_run:
      case proof::AuditKind::model:
        return say(proof::audit_canaries(world, what),
                   [](const auto& result) { std::printf("%s\n", text_of(result).c_str()); });
    }
  });
  return status;
}

}  // namespace shade::cli
