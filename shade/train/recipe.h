// A training run as a user writes it down: a TOML file, a section for each module, every field also an option.
#pragma once

#include <functional>

#include "shade/comm/world.h"
#include "shade/data/config.h"
#include "shade/optim/config.h"
#include "shade/privacy/accounting/accountant.h"
#include "shade/privacy/config.h"
#include "shade/shard/config.h"
#include "shade/train/micro_shapes.h"
#include "shade/train/model_config.h"

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
          {.help = "how batches are drawn; shuffled: epochs in random order, without an epsilon",
           .flags = {"--sampler"},
           .if_not_given = "poisson if private or sample_rate is set, otherwise shuffled"});
    f.add("sample_rate", sample_rate,
          {.help = "chance of a record, or of a user with --privacy-unit user, to be in a batch; 0: batch_size over "
                   "their number",
           .min = 0,
           .max = 1,
           .flags = {"--sample-rate"}});
    f.add("max_batch", max_batch,
          {.help = "truncated_poisson: larger batches are cut to it",
           .unit = "samples",
           .min = 0,
           .flags = {"--max-batch"}});
    f.add("population", population,
          {.help = "truncated_poisson: a bound on the number of records, or of users; 0: their number and one",
           .min = 0,
           .flags = {"--population"}});
    f.add("target_epsilon", target_epsilon,
          {.help = "find the sigma that spends this in all steps; 0: sigma is given",
           .min = 0,
           .flags = {"--target-epsilon", "--epsilon"}});
    f.add("max_epsilon", max_epsilon,
          {.help = "stop before more is spent; 0: target_epsilon, or no limit", .min = 0, .flags = {"--max-epsilon"}});
    f.add("delta", delta,
          {.help = "probability that epsilon doesn't hold, below 1 / number of records, or of users",
           .flags = {"--delta", "--target-delta"}});
    f.add("privacy_unit", privacy_unit,
          {.help = text("what epsilon protects; record: ", adjacency(privacy::PrivacyUnit::record),
                        "; window: ", adjacency(privacy::PrivacyUnit::window),
                        " of packed data, not a text or a person; user: ", adjacency(privacy::PrivacyUnit::user),
                        ", by --user-field"),
           .flags = {"--privacy-unit"}});
    f.add("max_records_per_user", max_records_per_user,
          {.help = "most records of a user in one step, drawn anew in each; they make one clipped gradient, and their "
                   "loss is the mean; required with --privacy-unit user",
           .unit = "records",
           .min = 0,
           .flags = {"--max-records-per-user"}});
    f.add("accountant", accountant, {.help = "whose epsilon counts", .flags = {"--accountant"}});
    f.add(
        "data_ledger", data_ledger,
        {.help = "file that counts what all private runs on these data spend, and stops them at its cap; made by shade "
                 "ledger --create",
         .flags = {"--data-ledger"}});
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
  int64_t log_every = 10;
  int64_t save_every = 0, keep = 2;
  Seconds save_interval{600};
  bool restart = false;
  std::string resume_from, test_folder, output, export_folder, adapter_folder;
  ExportType export_dtype = ExportType::automatic;
  int64_t seed = 0, threads = 0;
  bool keep_key = false;
  double peak_gflops = 0;

  void declare(Fields& f) {
    f.add("steps", steps, {.help = "updates", .min = 0, .flags = {"--steps", "--num-steps"}});
    f.add("batch_size", batch_size,
          {.help = "of all ranks together in one update (in shade bench --batch-size is per rank); under Poisson "
                   "sampling the expected number, and in a private run the public divisor; users with --privacy-unit "
                   "user",
           .unit = "samples",
           .min = 1,
           .flags = {"--global-batch-size", "--batch-size"}});
    f.add("seq_length", seq_length,
          {.help = "per sample",
           .unit = "tokens",
           .min = 1,
           .flags = {"--seq-length", "--seq", "--seq-lengths", "--max-length"}});
    f.add("micro_batch", micro_batch,
          {.help = "samples of seq_length that a rank computes at a time, of shorter texts as many as have the same "
                   "tokens; auto: the most that fit memory_limit",
           .flags = {"--micro-batch", "--max-physical-batch-size"}});
    f.add("padding", padding,
          {.help = "length that texts are padded to; longest: that of the longest in the micro-batch, which has texts "
                   "of similar length, or in a private run the next power of two; max_length: seq_length",
           .flags = {"--padding"}});
    f.add("grad_accum", grad_accum,
          {.help = "micro-batches of a rank in one update: micro_batch is the global batch over this and the number of "
                   "ranks, rounded up; 0: as many as micro_batch makes",
           .min = 0,
           .flags = {"--grad-accum", "--grad-accum-steps", "--gradient-accumulation-steps"}});
    f.add("memory_limit", memory_limit,
          {.help = "of tensors on a rank, for micro_batch auto and for the model states, which are refused if they "
                   "need more; "
                   "0: 80 % of what is available on the host now, and all of it for the states",
           .flags = {"--memory-limit"}});
    f.add("synthetic", synthetic,
          {.help = "train on synthetic records that the model makes for itself", .flags = {"--synthetic"}});
    f.add("records", records, {.help = "number of synthetic records", .min = 1, .flags = {"--records"}});
    f.add("sample_corpus", sample_corpus,
          {.help = "if data_folder isn't there, make it: so much text from a grammar, to try a recipe on",
           .flags = {"--sample-corpus"}});
    f.add(
        "eval_records", eval_records,
        {.help = "held out of training: evenly over the data or, in a private run, by each record's content, and then "
                 "approximately as many; of packed data whole records, not windows, unless the run is private; with "
                 "user_field whole users, approximately as many",
         .unit = "records",
         .min = 0,
         .flags = {"--eval-records"}});
    f.add("eval_every", eval_every, {.help = "evaluate them", .unit = "steps", .min = 1, .flags = {"--eval-every"}});
    f.add("test_folder", test_folder,
          {.help = "records as in data_folder, evaluated once, at the end", .flags = {"--test-folder"}});
    f.add("log_every", log_every, {.help = "a line of progress", .unit = "steps", .min = 1, .flags = {"--log-every"}});
    f.add("save_every", save_every,
          {.help = "steps between checkpoints; 0: by time, save_interval",
           .unit = "steps",
           .min = 0,
           .flags = {"--save-every"}});
    f.add("save_interval", save_interval,
          {.help = "time between checkpoints if save_every is 0; one is also saved at the end; 0: only then",
           .min = 0,
           .flags = {"--save-interval"}});
    f.add("keep", keep, {.help = "checkpoints that stay", .min = 1, .flags = {"--keep"}});
    f.add("output", output,
          {.help =
               "run directory; what is there is continued from its newest whole checkpoint; another directory, or its "
               "checkpoints folder deleted, begins anew; runs/ and the recipe's name if not set",
           .flags = {"--output", "--output-dir"}});
    f.add("resume_from", resume_from,
          {.help = "checkpoint to go back to: its folder, or its name in this run; the same command then goes on from "
                   "what was saved since; in private runs one of this run",
           .flags = {"--resume-from", "--resume-from-checkpoint"}});
    f.add("restart", restart,
          {.help = "begin at the first step although the ledger has steps of this run and no checkpoint is left; what "
                   "was spent stays counted",
           .flags = {"--restart"}});
    f.add("export_folder", export_folder,
          {.help = "at the end, write the model here as transformers reads it; adapters are added to their weights",
           .flags = {"--export"}});
    f.add("adapter_folder", adapter_folder,
          {.help = "at the end, write the LoRA adapters alone here as PEFT reads them", .flags = {"--export-adapter"}});
    f.add("export_dtype", export_dtype,
          {.help = "type of the exported model; auto: that of the weights training started from, or of computation for "
                   "random ones; adapters are exported in fp32",
           .flags = {"--export-dtype"}});
    f.add(
        "keep_key", keep_key,
        {.help = "keep the noise key of a private run when it is finished; anyone who reads it can subtract the noise",
         .flags = {"--keep-key"}});
    f.add("seed", seed, {.help = "of weights, and of batches in runs that are not private", .flags = {"--seed"}});
    f.add("threads", threads,
          {.help = "compute threads of a rank; 0: libtorch's choice, one if there are several ranks",
           .min = 0,
           .max = 4096,
           .flags = {"--threads"}});
    f.add("peak_gflops", peak_gflops,
          {.help = "stated peak of the hardware of a rank, which mfu is a share of; 0: unknown, and gemm_share is "
                   "reported, the share of "
                   "a matrix product timed at the start",
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
