// A training run as a user writes it down: a TOML file, a section for each module, every field also an option.
#pragma once

#include <functional>

#include "shade/base/effect.h"
#include "shade/comm/world.h"
#include "shade/data/config.h"
#include "shade/optim/config.h"
#include "shade/privacy/accounting/accountant.h"
#include "shade/privacy/config.h"
#include "shade/shard/config.h"
#include "shade/train/feed/micro_shapes.h"
#include "shade/train/spec/model_config.h"

namespace shade::train {

// [dp], beside how samples are clipped: what the privacy event is made of.
struct BudgetConfig {
  privacy::Sampler sampler = privacy::Sampler::poisson;  // resolve(): shuffled if not private and none was given
  double sample_rate = 0;
  int64_t max_batch = 0, population = 0;
  double target_epsilon = 0, max_epsilon = 0, delta = 1e-5;
  privacy::PrivacyUnit privacy_unit = privacy::PrivacyUnit::record;
  int64_t max_records_per_user = 0;
  privacy::Accountant accountant = privacy::Accountant::prv;
  std::string data_ledger;

  void declare(Fields& f) {
    f.add("sampler", sampler,
          {.help = "sampler that draws the batches; poisson: each record independently; truncated_poisson: the same "
                   "with a largest batch; shuffled: epochs in random order, without an epsilon",
           .flags = {"--sampler"},
           .if_not_given = "poisson if private or sample_rate is set, otherwise shuffled"});
    f.add("sample_rate", sample_rate,
          {.help = "probability that a record is in a batch, or a user with --privacy-unit user; 0: batch_size divided "
                   "by the number of records or users",
           .min = 0,
           .max = 1,
           .flags = {"--sample-rate"},
           .needs = {{"dp.sampler", {"poisson", "truncated_poisson"}}}});
    f.add("max_batch", max_batch,
          {.help = "largest batch of the truncated_poisson sampler; larger draws are cut to this size",
           .unit = "samples",
           .min = 0,
           .flags = {"--max-batch"},
           .needs = {{"dp.sampler", {"truncated_poisson"}}}});
    f.add("population", population,
          {.help = "upper bound on the number of records or users, for the truncated_poisson sampler; 0: their number "
                   "plus one",
           .min = 0,
           .flags = {"--population"},
           .needs = {{"dp.sampler", {"truncated_poisson"}}}});
    f.add("target_epsilon", target_epsilon,
          {.help = "epsilon to spend over all steps, from which sigma is computed; 0: sigma is given",
           .min = 0,
           .flags = {"--target-epsilon", "--epsilon"},
           .common = true,
           .needs = {{"dp.dp"}}});
    f.add("max_epsilon", max_epsilon,
          {.help = "largest epsilon; training stops before it is exceeded; 0: target_epsilon, or no limit",
           .min = 0,
           .flags = {"--max-epsilon"},
           .needs = {{"dp.dp"}}});
    f.add("delta", delta,
          {.help = "probability that the epsilon guarantee fails; choose it below 1 / number of records or users",
           .flags = {"--delta", "--target-delta"},
           .common = true,
           .needs = {{"dp.dp"}}});
    f.add("privacy_unit", privacy_unit,
          {.help = text("unit that epsilon protects; record: ", adjacency(privacy::PrivacyUnit::record),
                        "; window: ", adjacency(privacy::PrivacyUnit::window),
                        " of packed data, not a whole text or a person; user: ", adjacency(privacy::PrivacyUnit::user),
                        ", identified by --user-field"),
           .flags = {"--privacy-unit"},
           .common = true,
           .needs = {{"dp.dp"}}});
    f.add(
        "max_records_per_user", max_records_per_user,
        {.help = "largest number of a user's records in one step, drawn again in each step; their mean loss gives one "
                 "clipped gradient; required with --privacy-unit user",
         .unit = "records",
         .min = 0,
         .flags = {"--max-records-per-user"},
         .needs = {{"dp.dp"}, {"dp.privacy_unit", {"user"}}}});
    f.add("accountant", accountant,
          {.help = "accountant that enforces the budget", .flags = {"--accountant"}, .needs = {{"dp.dp"}}});
    f.add("data_ledger", data_ledger,
          {.help = "file that counts what all private runs on these data spend and stops them at its cap; created by "
                   "shade ledger --create",
           .flags = {"--data-ledger"},
           .needs = {{"dp.dp"}}});
  }
};

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

struct TrainConfig {
  int64_t steps = 100;
  int64_t batch_size = 64;  // logical, expected under Poisson sampling
  int64_t seq_length = 128;
  std::string micro_batch = "auto";
  Padding padding = Padding::longest;
  int64_t grad_accum = 0;
  Bytes memory_limit{0};
  bool synthetic = false;
  int64_t records = 4096;  // of synthetic data
  Bytes sample_corpus{0};
  int64_t eval_records = 0, eval_every = 100;
  double eval_rate = 0;
  int64_t log_every = 10;
  int64_t save_every = 0, keep = 2;
  Seconds save_interval{600};
  bool restart = false;
  std::string resume_from, test_folder, output, export_folder, adapter_folder;
  ExportType export_dtype = ExportType::automatic;
  int64_t seed = 0, threads = 0;
  bool keep_key = false;
  double peak_gflops = 0;

  bool holds_out() const { return eval_records > 0 || eval_rate > 0; }
  Fact held_out_fact() const {
    return {holds_out() ? kSomeHeldOut : kNoneHeldOut, {"train.eval_rate", "train.eval_records"}};
  }

  void declare(Fields& f) {
    f.add("steps", steps,
          {.help = "number of optimizer updates", .min = 0, .flags = {"--steps", "--num-steps"}, .common = true});
    f.add("batch_size", batch_size,
          {.help = "samples per update over all ranks together (in shade bench --batch-size is per rank); under "
                   "Poisson sampling their expected number, which is the public divisor of a private run; with "
                   "--privacy-unit user, users",
           .unit = "samples",
           .min = 1,
           .flags = {"--global-batch-size", "--batch-size"},
           .common = true});
    f.add("seq_length", seq_length,
          {.help = "sequence length of a sample; longer records are truncated",
           .unit = "tokens",
           .min = 1,
           .flags = {"--seq-length", "--seq", "--seq-lengths", "--max-length"},
           .common = true,
           .needs = {needs_texts()}});
    f.add("micro_batch", micro_batch,
          {.help = "number of samples of seq_length that a rank computes at a time; of shorter texts, as many as have "
                   "the same number of tokens; auto: the most that fit into memory_limit",
           .flags = {"--micro-batch", "--max-physical-batch-size"}});
    f.add(
        "padding", padding,
        {.help =
             "length that texts are padded to; longest: that of the longest text in the micro-batch, which holds "
             "texts of similar length (in a private run rounded up to 16, 24, 32, 48, 64, ...); max_length: seq_length",
         .flags = {"--padding"},
         .needs = {needs_texts()}});
    f.add("grad_accum", grad_accum,
          {.help = "micro-batches per rank and update; sets micro_batch to the global batch divided by this and by the "
                   "number of ranks, rounded up; 0: as many as micro_batch requires",
           .min = 0,
           .flags = {"--grad-accum", "--grad-accum-steps", "--gradient-accumulation-steps"}});
    f.add("memory_limit", memory_limit,
          {.help = "memory limit for tensors per rank, e.g. 4GiB; used by micro_batch auto, and a model whose states "
                   "exceed it is refused; 0: 80 % of the host's available memory, and all of it for the states",
           .flags = {"--memory-limit"}});
    f.add("synthetic", synthetic,
          {.help = "whether to train on synthetic records generated for the model", .flags = {"--synthetic"}});
    f.add("records", records,
          {.help = "number of synthetic records", .min = 1, .flags = {"--records"}, .needs = {{"train.synthetic"}}});
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
    f.add("keep_key", keep_key,
          {.help = "whether to keep the noise key of a private run after it has finished; anyone who reads the key can "
                   "subtract the noise",
           .flags = {"--keep-key"},
           .needs = {{"dp.dp"}}});
    f.add("seed", seed,
          {.help = "seed of the random weights, and of the batches in runs that are not private", .flags = {"--seed"}});
    f.add("threads", threads,
          {.help = "compute threads per rank; 0: libtorch's choice, or 1 if there are several ranks",
           .min = 0,
           .max = 4096,
           .flags = {"--threads"}});
    f.add("peak_gflops", peak_gflops,
          {.help = "stated peak performance of the hardware per rank, the reference of mfu; 0: unknown, and gemm_share "
                   "is reported instead, the share of a matrix product timed at the start",
           .unit = "GFLOP/s",
           .min = 0,
           .flags = {"--peak-gflops"}});
  }
};

struct Recipe {
  ModelConfig model;
  models::SizeOverrides sizes;
  data::DataConfig data;
  shard::ShardConfig shard;
  optim::OptimConfig optim;
  privacy::DpConfig dp;
  BudgetConfig budget;
  TrainConfig train;
  comm::CommConfig comm;

  void declare(Config& config);
  // What follows from other fields, and what no single field can say; `config` knows which of them were given.
  // Resolving again changes nothing. Throws UsageError.
  Recipe& resolve(const Config& config, int ranks = 1);

  // What resolve() decided, to be announced at the start of the run.
  struct Decisions {
    std::string weights;    // where training starts
    std::string tokenizer;  // of a data folder; empty: there is none
    std::string privacy;    // why the run is private, or why it is not
    std::string strategy;   // why it is sharded; empty: as stated
  } decisions;
};

// The first setting, without its section, that only a private run has a use for, of those that were given, by whatever
// `given` says of a key such as "dp.sigma"; empty: none.
std::string asks_for_privacy(const Recipe& recipe, const std::function<bool(const std::string&)>& given);

// Every field with its value, as a recipe that reads back the same; without how this start of the run began.
std::string print_toml(const Config& config);

}  // namespace shade::train
