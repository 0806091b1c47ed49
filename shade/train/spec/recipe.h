// A training run as a user writes it down: a TOML file, a section for each module, every field also an option. It is a
// RunSpec and what only training adds.
#pragma once

#include <functional>

#include "shade/train/spec/resolve.h"
#include "shade/train/spec/run_spec.h"

namespace shade::train {

// In which type a model is exported.
enum class ExportType { automatic, fp32, bf16, fp16 };
inline std::span<const Name<ExportType>> names_of(ExportType) {
  static constexpr Name<ExportType> kNames[] = {{"auto", ExportType::automatic},
                                                {"fp32", ExportType::fp32},
                                                {"bf16", ExportType::bf16},
                                                {"fp16", ExportType::fp16}};
  return kNames;
}

// A fact (base/effect.h): whether records of the data are held out for evaluation, and the option to do so.
inline const std::string kHeldOutFact = "held out", kNoneHeldOut = "no held-out records",
                         kSomeHeldOut = "--eval-rate or --eval-records";

// [train], beside WorkConfig.
struct TrainConfig {
  Bytes sample_corpus{0};
  int64_t eval_records = 0, eval_every = 100;
  double eval_rate = 0;
  int64_t log_every = 10;
  int64_t save_every = 0, keep = 2;
  Seconds save_interval{600};
  bool restart = false;
  std::string resume_from, test_folder, output, export_folder, adapter_folder;
  ExportType export_dtype = ExportType::automatic;

  bool holds_out() const { return eval_records > 0 || eval_rate > 0; }
  Fact held_out_fact() const {
    return {holds_out() ? kSomeHeldOut : kNoneHeldOut, {"train.eval_rate", "train.eval_records"}};
  }

  void declare(Fields& f, WorkConfig& work, BudgetConfig& budget) {
    work.declare_training(f);
    f.add("sample_corpus", sample_corpus,
          {.help = "size of a synthetic text corpus to write into data_folder if that folder does not exist, e.g. "
                   "2MiB; 0: none",
           .flags = {"--sample-corpus"},
           .needs = {{"data.data_folder"}, needs_texts()}});
    f.add("eval_records", eval_records,
          {.help = "number of records held out for evaluation in a run that is not private, spread evenly over the "
                   "data; with user_field an approximate number of users, held out with all records; packed data holds "
                   "out whole records",
           .unit = "records",
           .min = 0,
           .flags = {"--eval-records"}});
    f.add("eval_rate", eval_rate,
          {.help = "share of records held out for evaluation, each chosen by the hash of its content, so their number "
                   "is approximate; with user_field the share of users, held out with all records; packed data holds "
                   "out whole records, or windows in a private run",
           .min = 0,
           .max = 0.5,
           .flags = {"--eval-rate"}});
    f.add("eval_every", eval_every,
          {.help = "interval between evaluations on the held-out records",
           .unit = "steps",
           .min = 1,
           .flags = {"--eval-every"},
           .needs = {{kHeldOutFact, {kSomeHeldOut}}}});
    f.add("test_folder", test_folder,
          {.help = "folder of test records in the format of data_folder, evaluated once at the end",
           .flags = {"--test-folder"}});
    f.add("log_every", log_every,
          {.help = "interval between progress lines", .unit = "steps", .min = 1, .flags = {"--log-every"}});
    f.add("save_every", save_every,
          {.help = "interval between checkpoints; 0: set by time (save_interval)",
           .unit = "steps",
           .min = 0,
           .flags = {"--save-every"}});
    f.add("save_interval", save_interval,
          {.help = "time between checkpoints if save_every is 0, e.g. 10min; the last step is always saved; 0: only "
                   "the last step",
           .min = 0,
           .flags = {"--save-interval"},
           .needs = {{"train.save_every", {"0"}}}});
    f.add("keep", keep, {.help = "number of checkpoints to keep", .min = 1, .flags = {"--keep"}});
    f.add("output", output,
          {.help = "run directory; an existing run is continued from its newest complete checkpoint; to start again, "
                   "name another directory or delete its checkpoints folder",
           .flags = {"--output", "--output-dir"},
           .common = true});
    f.add("resume_from", resume_from,
          {.help = "checkpoint to go back to, by its folder or its name in this run; the same command then continues "
                   "from what was saved since; a private run accepts only its own checkpoints",
           .flags = {"--resume-from", "--resume-from-checkpoint"}});
    f.add("restart", restart,
          {.help = "whether to begin at the first step although the ledger has steps of this run and no checkpoint is "
                   "left; what was spent stays counted",
           .flags = {"--restart"}});
    f.add("export_folder", export_folder,
          {.help = "folder to write the final model to, in the format of transformers, with LoRA adapters merged into "
                   "the weights",
           .flags = {"--export"},
           .common = true});
    f.add("adapter_folder", adapter_folder,
          {.help = "folder to write the final LoRA adapters to, in the format of PEFT",
           .flags = {"--export-adapter"},
           .needs = {{"model.lora_rank"}}});
    f.add("export_dtype", export_dtype,
          {.help = "data type of the exported model; auto: that of the weights training started from, or of "
                   "computation if they were random; adapters are always exported in fp32",
           .flags = {"--export-dtype"},
           .needs = {{"train.export_folder"}}});
    f.add("keep_key", budget.keep_key,
          {.help = "whether to keep the noise key of a private run after it has finished; anyone who reads the key can "
                   "subtract the noise",
           .flags = {"--keep-key"},
           .needs = {{"dp.dp"}}});
    work.declare_shared(f);
  }
};

// The sections of a recipe. Verbs that read recipes of training too fill one that they have.
void declare_recipe(Config& config, RunSpec& run, TrainConfig& train);

struct Recipe : RunSpec {
  TrainConfig train;

  void declare(Config& config) { declare_recipe(config, *this, train); }
};

// What follows in a training run; resolve() calls it. Throws UsageError.
Decisions decide(Recipe& recipe, const Given& given, int ranks);

// A schedule with a shape ends with the run, unless its own length is stated.
void set_schedule_length(RunSpec& run);

// The first setting, without its section, that only a private run has a use for, of those that were given, by whatever
// `given` says of a key such as "dp.sigma"; empty: none.
std::string asks_for_privacy(const RunSpec& run, const std::function<bool(const std::string&)>& given);

// What only the records say of a run, once they are open.
struct DataFacts {
  std::optional<std::vector<std::string>> classes{};  // of texts
  std::optional<int64_t> num_classes{};               // of a head whose size nothing stated
  double sigma = 0;                                   // the event's: found for target_epsilon, or as stated
};
void apply(Recipe& recipe, const DataFacts& facts);  // Resolved::with() calls it

// Every field with its value, as a recipe that reads back the same; without how this start of the run began.
std::string print_toml(const Json& recipe);

}  // namespace shade::train
