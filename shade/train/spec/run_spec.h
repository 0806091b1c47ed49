// What a run is, as its user states it: model, data, work, sharding, optimizer, privacy and links. Every verb that
// builds a model starts from it and adds a small section of its own: Recipe (shade train), measure::Experiment (bench,
// compare, scan, plan, calibrate), proof::Audit and proof::Verification. What follows from a statement: spec/resolve.h.
#pragma once

#include "shade/accounting/accountant.h"
#include "shade/base/effect.h"
#include "shade/comm/world.h"
#include "shade/data/config.h"
#include "shade/optim/config.h"
#include "shade/privacy/config.h"
#include "shade/shard/config.h"
#include "shade/train/feed/micro_shapes.h"
#include "shade/train/spec/model_config.h"

namespace shade::train {

// [dp], beside how samples are clipped: what the privacy event is made of.
struct BudgetConfig {
  privacy::Sampler sampler = privacy::Sampler::poisson;  // if not stated: shuffled, unless private
  double sample_rate = 0;
  int64_t max_batch = 0, population = 0;
  double target_epsilon = 0, max_epsilon = 0, delta = 1e-5;
  privacy::PrivacyUnit privacy_unit = privacy::PrivacyUnit::record;
  int64_t max_records_per_user = 0;
  privacy::Accountant accountant = privacy::Accountant::prv;
  std::string data_ledger;
  bool keep_key = false;  // its option is in [train]

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

// How much is computed at a time. Its options are in the section of each verb: [train], [bench], ...
struct WorkConfig {
  int64_t steps = 100;
  int64_t seq_length = 128;
  int64_t batch_size = 64;           // of all ranks in one update; expected under Poisson sampling
  std::string micro_batch = "auto";  // samples that a rank computes at a time
  Padding padding = Padding::longest;
  int64_t grad_accum = 0;
  Bytes memory_limit{0};
  bool synthetic = false;
  int64_t records = 4096;  // of synthetic data
  int64_t seed = 0, threads = 0;
  double peak_gflops = 0;

  void declare_length(Fields& f) {
    f.add("seq_length", seq_length,
          {.help = "sequence length of a sample; longer records are truncated",
           .unit = "tokens",
           .min = 1,
           .flags = {"--seq-length", "--seq", "--seq-lengths", "--max-length"},
           .common = true,
           .needs = {needs_texts()}});
  }
  void declare_training(Fields& f) {  // those of [train] alone, and the length
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
    declare_length(f);
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
  }
  // Of every verb that trains or measures training: one that is added here is an option of each, in its section.
  void declare_shared(Fields& f) {
    f.add("threads", threads,
          {.help = "compute threads per rank; 0: libtorch's choice, or 1 if there are several ranks",
           .min = 0,
           .max = 4096,
           .flags = {"--threads"}});
    f.add("seed", seed,
          {.help = "seed of the random weights, and of the batches in runs that are not private", .flags = {"--seed"}});
    f.add("peak_gflops", peak_gflops,
          {.help = "stated peak performance of the hardware per rank, the reference of mfu; 0: unknown, and gemm_share "
                   "is reported instead, the share of a matrix product timed at the start",
           .unit = "GFLOP/s",
           .min = 0,
           .flags = {"--peak-gflops"}});
  }
};

struct RunSpec {
  ModelConfig model;
  models::SizeOverrides sizes;
  data::DataConfig data;
  WorkConfig work;
  shard::ShardConfig shard;
  optim::OptimConfig optim;
  privacy::DpConfig dp;
  BudgetConfig budget;
  comm::CommConfig comm;
};

}  // namespace shade::train
