#include "shade/train/recipe.h"

#include "shade/base/strings.h"

namespace shade::train {

void BudgetConfig::declare(Fields& f) {
  f.add("sampler", sampler,
        {.help = "how batches are drawn; shuffled: epochs in random order, without an epsilon",
         .flags = {"--sampler"},
         .if_not_given = "poisson if private or sample_rate is set, otherwise shuffled"});
  f.add("sample_rate", sample_rate,
        {.help = "chance of a record to be in a batch; 0: batch_size over the number of records",
         .min = 0,
         .max = 1,
         .flags = {"--sample-rate"}});
  f.add("max_batch", max_batch,
        {.help = "truncated_poisson: larger batches are cut to it",
         .unit = "samples",
         .min = 0,
         .flags = {"--max-batch"}});
  f.add("population", population,
        {.help = "truncated_poisson: a bound on the number of records; 0: their number and one",
         .min = 0,
         .flags = {"--population"}});
  f.add("target_epsilon", target_epsilon,
        {.help = "find the sigma that spends this in all steps; 0: sigma is given",
         .min = 0,
         .flags = {"--target-epsilon"}});
  f.add("max_epsilon", max_epsilon,
        {.help = "stop before more is spent; 0: target_epsilon, or no limit", .min = 0, .flags = {"--max-epsilon"}});
  f.add("delta", delta, {.help = "below 1 / number of records", .flags = {"--delta"}});
  f.add("privacy_unit", privacy_unit,
        {.help = text("what epsilon protects; record: ", adjacency(privacy::PrivacyUnit::record),
                      "; window: ", adjacency(privacy::PrivacyUnit::window), " of packed data, not a text or a person"),
         .flags = {"--privacy-unit"}});
  f.add("accountant", accountant, {.help = "whose epsilon counts", .flags = {"--accountant"}});
}

void TrainConfig::declare(Fields& f) {
  f.add("steps", steps, {.help = "updates", .min = 0, .flags = {"--steps", "--num-steps"}});
  f.add("batch_size", batch_size,
        {.help = "of all ranks together in one update; under Poisson sampling the expected one, and in a private run "
                 "the public divisor",
         .unit = "samples",
         .min = 1,
         .flags = {"--batch-size"}});
  f.add("seq_length", seq_length,
        {.help = "per sample", .unit = "tokens", .min = 1, .flags = {"--seq-length", "--max-length"}});
  f.add("micro_batch", micro_batch,
        {.help = "samples a rank computes at a time, or auto: the most that fit memory_limit",
         .flags = {"--micro-batch"}});
  f.add(
      "memory_limit", memory_limit,
      {.help =
           "of tensors on a rank, for micro_batch auto and for the model states, which are refused if they need more; "
           "0: 80 % of what is available on the host now, and all of it for the states",
       .flags = {"--memory-limit"}});
  f.add("synthetic", synthetic,
        {.help = "train on synthetic records that the model makes for itself", .flags = {"--synthetic"}});
  f.add("records", records, {.help = "number of synthetic records", .min = 1, .flags = {"--records"}});
  f.add("sample_corpus", sample_corpus,
        {.help = "if data_folder isn't there, make it: so much text from a grammar, to try a recipe on",
         .flags = {"--sample-corpus"}});
  f.add("eval_records", eval_records,
        {.help = "held out of training: evenly over the data or, in a private run, by each record's content, and then "
                 "approximately as many; of packed data whole records, not windows, unless the run is private",
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
  f.add(
      "output", output,
      {.help = "run directory; what is there is continued from its newest whole checkpoint; another directory, or its "
               "checkpoints folder deleted, begins anew; runs/ and the recipe's name if not set",
       .flags = {"--output", "--output-dir"}});
  f.add("resume_from", resume_from,
        {.help = "checkpoint to go back to: its folder, or its name in this run; the same command then goes on from "
                 "what was saved since; in private runs one of this run",
         .flags = {"--resume-from"}});
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
  f.add("keep_key", keep_key,
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

void Recipe::declare(Config& config) {
  config.add("model", model);
  config.add("model", sizes);
  config.add("data", data);
  config.add("shard", shard);
  config.add("optim", optim);
  config.add("dp", dp);
  config.add("dp", budget);
  config.add("train", train);
  config.add("comm", comm);
}

namespace {

// JSON and TOML write values alike, except for the one control character that JSON leaves as it is.
std::string toml_of(const Json& value) { return join(split(value.dump(), '\x7f'), "\\u007f"); }

// What follows from another field is a comment: both would be two words on one thing, which may be refused.
std::string follows(const Json& all, const std::string& name, const Json& value) {
  const auto& dp = all.at("dp");
  if (name == "sigma" && dp.at("target_epsilon") > 0.0) return "# found for target_epsilon: ";
  if (name == "grad_clip" && dp.at("dp") == "none" && dp.at("max_grad_norm") == value) return "# from max_grad_norm: ";
  return "";
}

}  // namespace

std::string print_toml(const Config& config) {
  std::string out;
  const auto json = config.json();
  for (const auto& [section, fields] : json.items()) {
    out += text(out.empty() ? "" : "\n", "[", section, "]\n");
    for (const auto& [name, value] : fields.items()) {
      if (name == "resume_from" || name == "restart") continue;  // of one start, not of the run
      out += text(follows(json, name, value), name, " = ", toml_of(value), "\n");
    }
  }
  return out;
}

}  // namespace shade::train
