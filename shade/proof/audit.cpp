#include "shade/proof/audit.h"

#include <ATen/ATen.h>

#include <cmath>

#include "shade/accounting/gaussian_pair.h"
#include "shade/base/effect.h"
#include "shade/base/error.h"
#include "shade/base/log.h"
#include "shade/proof/observed_training.h"
#include "shade/shard/config.h"
#include "shade/train/feed/loader.h"

namespace shade::proof {

void AuditConfig::declare(Fields& f, train::RunSpec& run) {
  f.add("seq_length", run.work.seq_length,
        {.help = "sequence length of a sample",
         .unit = "tokens",
         .min = 1,
         .flags = {"--seq-length", "--seq"},
         .needs = {needs_texts()}});
  f.add("batch_size", run.work.batch_size,
        {.help = "number of records (or users) in addition to the canary", .min = 0, .flags = {"--batch-size"}});
  f.add("max_records_per_user", run.budget.max_records_per_user,
        {.help = "number of records of the canary and of each other user, clipped as one; 1: the unit is a record",
         .unit = "records",
         .min = 1,
         .flags = {"--max-records-per-user"}});
  f.add("kind", kind,
        {.help = "what is audited; step: one noisy sum, many times; training: whole short trainings with and without "
                 "a canary, every step observed; one_run: one training with many canaries, every step observed; model: "
                 "the same, only the losses of the trained model are seen",
         .flags = {"--kind"}});
  f.add("runs", runs,
        {.help = "number of noisy sums per world, for kind step",
         .min = 100,
         .flags = {"--runs"},
         .needs = {{"audit.kind", {"step"}}}});
  f.add("steps", run.work.steps,
        {.help = "number of steps of a training; not for kind step",
         .min = 1,
         .max = 10000,
         .flags = {"--steps", "--num-steps"},
         .needs = {{"audit.kind", {"training", "one_run", "model"}}}});
  f.add("sample_rate", run.budget.sample_rate,
        {.help = "probability that a record is in a step's batch; not for kind step",
         .min = 0,
         .max = 1,
         .flags = {"--sample-rate"},
         .needs = {{"audit.kind", {"training", "one_run", "model"}}}});
  f.add("trainings", trainings,
        {.help = "number of trainings per world, for kind training",
         .min = 20,
         .flags = {"--trainings"},
         .needs = {{"audit.kind", {"training"}}}});
  f.add("canaries", canaries,
        {.help = "number of canaries, each included with probability 1/2, for kinds one_run and model",
         .min = 10,
         .flags = {"--canaries"},
         .needs = {{"audit.kind", {"one_run", "model"}}}});
  f.add("micro_batch", micro_batch,
        {.help = "number of samples that a rank computes at a time in a training",
         .min = 1,
         .flags = {"--micro-batch"},
         .needs = {{"audit.kind", {"training", "one_run", "model"}}}});
  f.add("delta", run.budget.delta, {.help = "delta at which epsilons are compared", .flags = {"--delta"}});
  f.add("confidence", confidence, {.help = "confidence level of the lower bound", .min = 0.5, .max = 0.999999});
  f.add("fault", fault, {.help = "planted fault that the audit must find", .flags = {"--fault"}});
  f.add("seed", run.work.seed, {.help = "seed of weights, records and noise", .flags = {"--seed"}});
}

Audit::Audit() {
  work.seq_length = 12;
  work.batch_size = 7;
  work.steps = 8;
  work.seed = 1;
  budget.sample_rate = 0.5;
  budget.max_records_per_user = 1;
  dp.dp = privacy::MethodName::flash_bookkeeping;
}

void Audit::declare(Config& config) {
  Fields of_model("model", config.fields());
  model.declare_options(of_model);
  of_model.add("dtype", model.dtype,
               {.help = "data type of computation; master weights are fp32", .flags = {"--dtype"}});
  Fields own("audit", config.fields());
  audit.declare(own, *this);
  config.add("model", sizes);
  config.add("shard", shard);
  config.add("dp", dp);
}

train::Decisions decide(Audit& what, const Given& given, int ranks) {
  SHADE_REQUIRE(what.trained.budget.target_epsilon == 0 || given("dp.sigma"),
                "the recipe states target_epsilon, from which shade train finds sigma by its data and steps; state "
                "--sigma (shade account finds it)");
  const auto take = [&](const char* key, const char* of, auto& into, const auto& value) {
    if (given(of) && !given(key)) into = value;
  };
  const auto& [trained, kind] = std::tie(what.trained, what.audit.kind);
  if (trained.budget.privacy_unit == privacy::PrivacyUnit::user)
    take("audit.max_records_per_user", "dp.max_records_per_user", what.budget.max_records_per_user,
         trained.budget.max_records_per_user);
  if (kind != AuditKind::step)
    take("audit.sample_rate", "dp.sample_rate", what.budget.sample_rate, trained.budget.sample_rate);
  // A training that is repeated hundreds of times stays as short as it is by default.
  if (kind != AuditKind::step && kind != AuditKind::training)
    take("audit.steps", "train.steps", what.work.steps, trained.work.steps);
  what.model.use_folder();
  train::Decisions out;
  out.add(train::Topic::strategy, shard::choose_strategy(what.shard, given, ranks));
  return out;
}

Verdict AuditResult::verdict() const {
  if (canary > kLongestCanary || lower_epsilon > claimed_epsilon) return Verdict::wrong;
  return canary >= kShortestCanary && visible_epsilon > claimed_epsilon ? Verdict::stands : Verdict::nothing;
}

std::string AuditResult::why() const {
  if (canary > kLongestCanary)
    return text("one ", unit, " moved the sum by ", significant(canary, canary < 1.01 ? 8 : 4), " clip norms");
  if (lower_epsilon > claimed_epsilon) return "the observer tells the worlds apart better than the claim allows";
  if (canary < kShortestCanary)
    return text("a canary of less than ", kShortestCanary, " clip norms hides faults; lower --max-grad-norm");
  if (visible_epsilon <= claimed_epsilon)
    return text("if the noise were half as large, ", runs, " runs might find an epsilon of only ",
                significant(visible_epsilon, 4), ", which the claim allows; raise --runs, or choose a --sigma near 1");
  return {};
}

std::vector<std::string> AuditResult::assumes() const {
  return {text("the noise of the ", 2 * runs,
               " sums is independent, and the observer's rule was fixed before it: which "
               "of the two sums without noise, both of which he knows, is nearer"),
          "lower_mu and lower_epsilon are those of Gaussian noise of unknown size, without sampling",
          text("the sums are those of one batch of synthetic records, the canary is one ", unit)};
}

Json AuditResult::json() const {
  return {{"kind", to_string(AuditKind::step)},
          {"runs", runs},
          {"false_alarms", false_alarms},
          {"misses", misses},
          {"delta", delta},
          {"confidence", confidence},
          {"privacy_unit", unit},
          {"canary_in_clip_norms", canary},
          {"claimed_mu", claimed_mu},
          {"claimed_epsilon", claimed_epsilon},
          {"lower_mu", lower_mu},
          {"lower_epsilon", lower_epsilon},
          {"visible_epsilon", visible_epsilon},
          {"assumes", assumes()},
          {"verdict", to_string(verdict())},
          {"why", why()},
          {"pass", pass()}};
}

namespace {

// The z above which a share `rate` of a standard normal lies.
double point_of(double rate) {
  if (rate == 0.5) return 0;
  double low = -40, high = 40;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(middle / std::sqrt(2.0)) / 2 > rate ? low : high) = middle;
  }
  return low;
}

// The mu that a mechanism has at least whose observer was wrong so often; both bounds hold together.
double lower_mu(int64_t false_alarms, int64_t misses, int64_t runs, double confidence) {
  const double each = 1 - (1 - confidence) / 2;
  return std::max(0.0, point_of(upper_rate(false_alarms, runs, each)) + point_of(upper_rate(misses, runs, each)));
}

double epsilon_of(double mu, double delta) { return mu > 0 ? privacy::gaussian_epsilon(delta, mu) : 0; }

// User i has records [i each, (i + 1) each); they are one sample, or by a fault a sample each.
struct UserRecords {
  const data::Dataset& records;
  int64_t each = 1;
  bool clipped_alone = false;

  nn::Batch batch(std::span<const int64_t> users) const {
    std::vector<int64_t> numbers;
    for (const auto user : users)
      for (int64_t i = 0; i < each; ++i) numbers.push_back(user * each + i);
    auto out = records.batch(numbers);
    out.rows_per_sample = clipped_alone ? 1 : each;
    return out;
  }
};

Parts sums_of(train::Job& job, const UserRecords& users, int64_t count) {
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(i);
  const auto& control = job.groups().control;
  std::vector<nn::Batch> batches;
  for (const auto& mine :
       train::deal(users.records, numbers, std::max<int64_t>(1, count), {control.size(), control.rank()}))
    batches.push_back(users.batch(mine.records).to(job.device()));
  return gradient_sums(job, batches);
}

}  // namespace

void require_auditable(const Audit& what, int ranks) {
  const auto& [config, dp] = std::tie(what.audit, what.dp);
  SHADE_REQUIRE(dp.is_private() && dp.sigma > 0, "an audit needs a private step with noise; set --dp and --sigma");
  SHADE_REQUIRE(dp.clip.style != privacy::ClipStyle::adaptive,
                "adaptive clipping releases a second number, which this audit doesn't look at; choose another style");
  SHADE_REQUIRE(config.fault != AuditFault::rank0_noise || ranks > 1,
                "noise by rank 0 alone is no fault in a world of one rank; add --ranks 2 --shard zero3");
  SHADE_REQUIRE(config.fault != AuditFault::clip_records || what.budget.max_records_per_user > 1,
                "records that are clipped one by one are no fault where a record is the unit; add "
                "--max-records-per-user 8");
  const bool across_steps = config.fault == AuditFault::no_sampling || config.fault == AuditFault::reused_noise;
  SHADE_REQUIRE(!across_steps || config.kind != AuditKind::step, "--fault ", to_string(config.fault),
                " is no fault of a single step on a given batch; add --kind training");
  SHADE_REQUIRE(config.fault != AuditFault::reused_noise || what.work.steps > 1,
                "noise can't be used again in a training of one step; raise --steps");
  SHADE_REQUIRE(config.fault != AuditFault::no_sampling || what.budget.sample_rate < 1,
                "batches of all records are no fault at a sample rate of 1; lower --sample-rate");
}

AuditResult audit(comm::World& world, const Audit& what) {
  require_auditable(what, world.size());
  const auto& config = what.audit;
  auto dp = what.dp;
  const auto each = what.budget.max_records_per_user;
  const bool clipped_alone = config.fault == AuditFault::clip_records;
  AuditResult out{.runs = config.runs,
                  .claimed_mu = 1 / dp.sigma,
                  .claimed_epsilon = privacy::gaussian_epsilon(what.budget.delta, 1 / dp.sigma),
                  .delta = what.budget.delta,
                  .confidence = config.confidence,
                  .unit = to_string(each > 1 ? privacy::PrivacyUnit::user : privacy::PrivacyUnit::record)};
  const double clip_norm = dp.max_grad_norm;
  if (config.fault == AuditFault::half_noise) dp.sigma /= 2;
  if (config.fault == AuditFault::no_clip) {  // a bound that nothing reaches, and the same noise
    dp.max_grad_norm *= 1e6;
    dp.sigma *= 1e-6;
  }
  dp.noise_seed = what.work.seed;

  const auto model = models::make_model(what.model.model, what.sizes, what.model.options());
  train::Job job(world, {.model = model.get(),
                         .step = train::step_options(dp, {.rehearsal = true}),
                         .shard = what.shard,
                         .dtype = train::dtype_of(what.model.dtype),
                         .micro_batch = (what.work.batch_size + 1) * (clipped_alone ? each : 1),
                         .seed = static_cast<uint64_t>(what.work.seed)});
  auto& runtime = job.runtime();
  const train::MadeUpData records(*model, (what.work.batch_size + 1) * each, what.work.seq_length,
                                  static_cast<uint64_t>(what.work.seed), train::scalar_type(what.model.dtype));
  const UserRecords users{records, each, clipped_alone};
  const Parts without = sums_of(job, users, what.work.batch_size);
  const Parts with = sums_of(job, users, what.work.batch_size + 1);
  Parts canary;
  for (size_t i = 0; i < with.size(); ++i) canary.push_back(with[i] - without[i]);

  const double length = over_ranks(at::full({1}, dot(canary, canary), at::kDouble), job.groups()).item<double>();
  out.canary = std::sqrt(length) / clip_norm;
  const bool noisy = config.fault != AuditFault::rank0_noise || world.rank() == 0;
  const auto shards = runtime.shards();
  const auto seen = at::zeros({2, config.runs}, at::kDouble);  // along the canary, from the sum without it
  for (int64_t world_number = 0; world_number < 2; ++world_number)
    for (int64_t run = 0; run < config.runs; ++run) {
      job.optimizer().set_steps(world_number * config.runs + run);  // noise of its own
      for (size_t i = 0; i < shards.size(); ++i) shards[i].gradient.copy_(world_number == 0 ? without[i] : with[i]);
      if (noisy) job.add_noise();
      double along = 0;
      for (size_t i = 0; i < shards.size(); ++i)
        along += (shards[i].gradient - without[i]).dot(canary[i]).item<double>();
      seen[world_number][run] = along;
    }
  const auto observed = over_ranks(seen, job.groups());
  out.false_alarms = (observed[0] > length / 2).sum().item<int64_t>();
  out.misses = (observed[1] <= length / 2).sum().item<int64_t>();
  out.lower_mu = lower_mu(out.false_alarms, out.misses, config.runs, config.confidence);
  out.lower_epsilon = epsilon_of(out.lower_mu, what.budget.delta);
  const double wrong = std::erfc(out.canary * out.claimed_mu / std::sqrt(2.0)) / 2;  // at a distance of 2 mu
  const auto errors = most_errors(config.runs, wrong);
  out.visible_epsilon = epsilon_of(lower_mu(errors, errors, config.runs, config.confidence), what.budget.delta);
  runtime.updated();
  return out;
}

}  // namespace shade::proof
