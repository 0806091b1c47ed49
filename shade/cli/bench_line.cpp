#include "shade/cli/bench_line.h"

#include <cstdlib>

#include "shade/cli/foreign_words.h"

namespace shade::cli {
namespace {

// The variable by which Opacus's timers are switched on.
bool asks_for_profile() {
  const char* value = std::getenv("OPACUS_PROFILE_FSDP");
  return value != nullptr && parse_switch(value).value_or(false);
}

}  // namespace

BenchLine::BenchLine(std::string summary, std::string example) : line("bench", std::move(summary), std::move(example)) {
  experiment.declare(config);
  train::declare_recipe(recipe_config, experiment, train);
  config.read_also(recipe_config);
  line.add(config);
}

std::optional<int> BenchLine::parse(const Arguments& arguments) {
  const auto implied = with_implied(line.in_own_words(arguments));
  if (const auto status = line.parse(implied.arguments)) return status;
  experiment.from_recipe = line.has_file();
  auto& bench = experiment.bench;
  if (!line.given("bench.enable_profiling") && !bench.bare && asks_for_profile()) bench.enable_profiling = true;
  SHADE_REQUIRE(!bench.bare || !bench.enable_profiling,
                "--bare measures no phases, and --enable-profiling prints them; drop one of them");
  const auto place = expected_place(line);
  const int ranks = planned_ranks.value_or(place.size);
  stated = experiment;
  run.emplace(train::resolve(stated, config.stated(), ranks));
  experiment = **run;  // conditions of options are about what was decided
  for (const auto topic : {train::Topic::weights, train::Topic::strategy, train::Topic::vocabulary})
    notes.push_back(run->decisions().of(topic));
  std::erase(notes, "");
  Facts facts{{kModelKind, experiment.model.model_kind(experiment.sizes)},
              {kRanks, planned_ranks ? shade::ranks_fact(ranks) : ranks_fact(place)}};
  // A plain step takes the clip norm of a recipe as shade train does.
  if (!line.has_file()) facts[kStepKind] = {experiment.dp.is_private() ? kPrivateStep : kPlainStep, {"dp.dp"}};
  unused = line.without_effect(facts);
  notes.insert(notes.begin(), implied.notes.begin(), implied.notes.end());
  return std::nullopt;
}

}  // namespace shade::cli
