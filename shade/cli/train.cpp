// shade train: a recipe, from the first step to the last.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "shade/base/error.h"
#include "shade/base/files.h"
#include "shade/base/json.h"
#include "shade/base/visible_text.h"
#include "shade/cli/memory.h"
#include "shade/cli/version.h"
#include "shade/comm/world.h"
#include "shade/profile/trace.h"
#include "shade/train/feed/records.h"
#include "shade/train/run/model_states.h"
#include "shade/train/run/trainer.h"

namespace shade::cli {
namespace {

// Traces of the first steps of a training run, for shade train --use-profiler.
inline constexpr int64_t kProfiledSteps = 10;  // a trace of every operator grows by megabytes per step

class StepProfiler {
 public:
  // Writes FOLDER/rankN.pt.trace.json, one per rank.
  StepProfiler(comm::World& world, std::filesystem::path folder, Readers readers)
      : world_(world), folder_(std::move(folder)), readers_(readers) {}

  void before_step();  // begins the trace, and saves it when kProfiledSteps are made
  void end();          // saves what there is of a shorter run; rank 0 prints where the traces are

 private:
  void save();

  comm::World& world_;
  std::filesystem::path folder_;
  Readers readers_;
  std::optional<profile::Trace> trace_;
  Clock::time_point begin_;
  int64_t steps_ = 0;
  bool saved_ = false;
};

void StepProfiler::before_step() {
  if (saved_) return;
  const auto now = Clock::now();
  if (trace_)
    trace_->step(steps_++, begin_, now);
  else
    trace_.emplace(profile::TraceOwner{world_.rank(), world_.size(), to_string(world_.backend())});
  begin_ = now;
  if (steps_ == kProfiledSteps) save();
}

void StepProfiler::end() {
  if (trace_ && !saved_) {
    trace_->step(steps_++, begin_, Clock::now());
    save();
  }
  if (saved_ && world_.rank() == 0)
    std::printf("traces of %lld step%s in %s, one per rank\n", static_cast<long long>(steps_), steps_ == 1 ? "" : "s",
                visible(folder_.string()).c_str());
}

void StepProfiler::save() {
  make_folder(folder_, readers_);
  trace_->collectives(world_.traffic().drain());
  trace_->save((folder_ / text("rank", world_.rank(), ".pt.trace.json")).string(), readers_);
  trace_.reset();
  saved_ = true;
}

// Called before anything is allocated, in the process that starts the ranks, so that there is one message.
void require_recipe_fits(const train::Recipe& recipe, const comm::Place& place) {
  const auto size = models::size_of(recipe.model.model, recipe.sizes, recipe.model.options());
  const auto states = train::model_states(size, {.shard = recipe.shard,
                                                 .compute = dtype_of(recipe.model.dtype),
                                                 .optim = recipe.optim,
                                                 .ranks = place.size,
                                                 .local_ranks = place.local_size});
  if (const auto limit = recipe.work.memory_limit; limit.count > 0)
    train::require_memory(
        states, {std::min(limit.count, std::numeric_limits<int64_t>::max() / place.local_size) * place.local_size});
  else
    train::require_memory(states);
}

// A recipe's dp = "none" may be a line of a long file; what the command line asks for is meant.
void require_stated_privacy(const train::Recipe& recipe, const Config& config, const CommandLine& line) {
  if (recipe.dp.is_private() || !config.given("dp.dp") || line.given("dp.dp")) return;
  auto option = train::asks_for_privacy(recipe, [&](const std::string& key) { return line.given(key); });
  std::replace(option.begin(), option.end(), '_', '-');
  SHADE_REQUIRE(option.empty(), "the recipe says dp = none and --", option,
                " was given on the command line; add --dp auto for a private run or drop --", option);
}

struct Train final : LineVerb {
  train::Recipe recipe;
  Config config;
  bool use_profiler = false;

  Train()
      : LineVerb("train",
                 "Trains a model from a recipe, a TOML file with a section for each part. Every field of a recipe is "
                 "also an option.\nThe same command continues a run that was interrupted.",
                 "shade train recipes/llama_nano_private.toml --ranks 2 --shard zero3\n"
                 "  shade train --model FOLDER --data-folder records --lora-rank 8 --dp auto --target-epsilon 8 "
                 "--steps 500 --output runs/private\n"
                 "  shade train --model FOLDER --data-folder records --steps 500 --export tuned") {
    recipe.declare(config);
    line.add(config, "RECIPE");
    line.shorten_help(
        {line.app().add_flag("--use-profiler", use_profiler,
                             text("write traces of the first ", kProfiledSteps,
                                  " steps to traces/ in the run directory, to open in Perfetto or TensorBoard"))});
  }

  int run(const Arguments& arguments) override;
};

}  // namespace

std::unique_ptr<Invocation> declare_train() { return std::make_unique<Train>(); }

int Train::run(const Arguments& arguments) {
  if (const auto status = line.parse(arguments)) return *status;
  // A recipe may bring a corpus along; the folder of somebody's own is never filled with it.
  if (line.given("data.data_folder") && !line.given("train.sample_corpus")) recipe.train.sample_corpus = Bytes{0};
  SHADE_REQUIRE(config.given("model.model"),
                "no model to train; name a recipe (shade train RECIPE.toml), or a model and its data (--model FOLDER "
                "--data-folder FOLDER)");
  if (recipe.train.output.empty() && line.has_file()) recipe.train.output = "runs/" + line.config_name();
  require_stated_privacy(recipe, config, line);
  const auto run = train::resolve(recipe, config.stated(), expected_place(line).size);
  recipe = *run;  // conditions of options are about what was decided
  train::require_data(recipe);
  line.require_effects({{kModelKind, recipe.model.model_kind(recipe.sizes)},
                        {kRanks, ranks_fact(expected_place(line))},
                        {train::kHeldOutFact, recipe.train.held_out_fact()}});
  optim::make_schedule(recipe.optim);  // better refused now than when all data has been read
  if (!on_gpus(recipe.comm)) require_recipe_fits(recipe, expected_place(line));
  if (const auto status = start_ranks(line, "train", arguments, recipe.comm)) return *status;
  in_world(line.ranks, recipe.comm, [&](comm::World& world) {
    use_threads(recipe.work.threads, world.place(), world.device());
    if (const auto planned = experiment_of(recipe, world.size()))
      warn_of_memory(*planned, world, recipe.work.memory_limit);
    std::optional<StepProfiler> profiler;
    if (use_profiler)
      profiler.emplace(world, std::filesystem::path(recipe.train.output) / "traces",
                       recipe.dp.is_private() ? Readers::owner : Readers::by_umask);
    const auto before_step = [&] {
      if (profiler) profiler->before_step();
      return false;  // no request to stop
    };
    train::Trainer trainer(
        world, run, nullptr,
        {.stop = before_step, .answer_signals = true, .environment = origin("train", arguments, world.device())});
    const auto result = trainer.run();
    if (profiler) profiler->end();
    if (world.rank() != 0 || line.json_file.empty()) return;
    Json out{{"steps", result.steps}, {"ended", to_string(result.ended)}};
    Json own{{"loss", result.loss},  // from the records, without noise
             {"tokens", result.tokens},
             {"padded_tokens", result.padded_tokens},
             {"steps_s", result.took.count()}};
    if (result.evaluation) own.update(result.evaluation->json("eval"));
    if (result.test) own.update(result.test->json("test"));
    if (recipe.dp.is_private())
      out["not_private"] = own;
    else
      out.update(own);
    if (result.spent) {
      out["epsilon"] = result.spent->epsilon;
      out["delta"] = result.spent->delta;
      out["privacy_unit"] = to_string(recipe.budget.privacy_unit);
    }
    if (recipe.dp.is_private()) out["adjacency"] = adjacency(recipe.budget.privacy_unit);
    if (result.spent && recipe.dp.noise_seed >= 0) out["epsilon_void"] = true;
    out["run"] = without_folders(recipe.train.output);
    out["config"] = without_folders(trainer.run_spec().json());
    write_output(line.json_file, out.dump(2) + "\n", recipe.dp.is_private() ? Readers::owner : Readers::by_umask);
  });
  return 0;
}

}  // namespace shade::cli
