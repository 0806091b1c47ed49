// shade train: a recipe, from the first step to the last.
#include "shade/train/trainer.h"

#include <csignal>

#include "shade/cli/verb.h"

namespace shade::cli {
namespace {

volatile std::sig_atomic_t asked = 0;  // by SIGTERM: finish the step, save, end well

}  // namespace

int run_train(const Arguments& arguments) {
  train::Recipe recipe;
  Config config;
  recipe.declare(config);
  CommandLine line("train",
                   "Trains a model as a recipe says: TOML with a section for each part; every field is also an "
                   "option.\nA record is the privacy unit. The run directory is found again and continued.",
                   "shade train recipes/llama_nano_private.toml --ranks 2 --shard.shard zero3");
  line.add(config, "RECIPE");
  if (const auto status = line.parse(arguments)) return *status;
  if (recipe.train.output.empty()) recipe.train.output = "runs/" + line.config_name();
  if (const auto status = start_ranks(line, "train", arguments, recipe.comm)) return *status;
  std::signal(SIGTERM, [](int) { asked = 1; });
  in_world(line.ranks, recipe.comm, [&](comm::World& world) {
    train::Trainer trainer(world, recipe, config, nullptr, {.stop = [] { return asked != 0; }});
    const auto result = trainer.run();
    if (world.rank() != 0 || line.json_file.empty()) return;
    Json out{{"steps", result.steps}, {"ended", to_string(result.ended)}};
    out[recipe.dp.is_private() ? "not_private_loss" : "loss"] = result.loss;
    if (result.evaluation) out.update(result.evaluation->json("eval"));
    if (result.test) out.update(result.test->json("test"));
    if (result.spent) out["epsilon"] = result.spent->epsilon;
    out["run"] = recipe.train.output;
    out["config"] = config.json();
    write_json(line.json_file, out);
  });
  return 0;
}

}  // namespace shade::cli
