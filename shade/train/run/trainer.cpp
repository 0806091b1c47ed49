#include "shade/train/run/trainer.h"

#include <ATen/ATen.h>

#include <cmath>
#include <csignal>
#include <cstdio>

#include "shade/base/error.h"
#include "shade/base/log.h"
#include "shade/base/strings.h"
#include "shade/checkpoint/agreement.h"
#include "shade/data/text_dataset.h"
#include "shade/models/flops.h"
#include "shade/profile/device.h"
#include "shade/profile/host_memory.h"
#include "shade/profile/memory.h"
#include "shade/profile/peak_flops.h"
#include "shade/shard/runtime.h"
#include "shade/train/budget/identity.h"
#include "shade/train/feed/micro_batch.h"
#include "shade/train/feed/records.h"
#include "shade/train/release/privacy_statement.h"
#include "shade/train/run/model_states.h"
#include "shade/train/run/run_folder.h"
#include "shade/train/run/space.h"
#include "shade/train/spec/changes.h"
#include "shade/train/spec/introduction.h"
#include "shade/train/step/slots.h"
#include "shade/train/step/step.h"
#include "shade/train/step/written_weights.h"

namespace shade::train {
namespace {

// Training that has diverged ends before anything of it is saved, evaluated or exported.
struct Reached {
  int64_t step = 0;   // steps made
  int64_t saved = 0;  // of the last checkpoint; -1: there is none
};

[[noreturn]] void diverged(const std::string& what, const StepRecord& record, const Reached& reached) {
  throw Error(text("after step ", reached.step, " ", what, " (learning rate ", record.learning_rate,
                   "): training has diverged, and nothing of it is saved or exported. ",
                   reached.saved >= 0
                       ? text("The last checkpoint stays (step ", reached.saved, "): continue from it or start")
                       : "There is no checkpoint yet: start",
                   " again with a smaller learning rate (--lr)"));
}

// Of a run that is not private: the mean loss and the gradient norm of a step that had samples are finite. Throws
// Error.
void require_finite_loss(const StepRecord& record, const Reached& reached) {
  if (record.samples.samples == 0) return;
  const auto require = [&](const char* what, double value) {
    if (!std::isfinite(value)) diverged(text(what, " is ", std::isnan(value) ? "nan" : "infinite"), record, reached);
  };
  require("the loss", record.loss);
  require("the norm of the gradient", record.gradient_norm.value_or(0));
}

// Collective. Throws Error on every rank if a weight of any is not finite.
void require_finite_weights(shard::Runtime& runtime, const StepRecord& record, const Reached& reached) {
  std::vector<at::Tensor> sums;
  for (const auto& unit : runtime.units())
    for (const auto& flat : unit->flats())
      if (flat.layout->trainable) sums.push_back(flat.owned.sum(at::kDouble));
  const bool finite = sums.empty() || at::isfinite(at::stack(sums)).all().item<bool>();
  const auto broken = at::full({1}, finite ? 0.0 : 1.0, at::kDouble);
  runtime.groups().control.all_reduce(broken, {.label = "weights are finite"}).wait();
  if (broken.item<double>() > 0) diverged("weights are not finite", record, reached);
}

std::shared_ptr<models::Model> counted_model(const Recipe& recipe, std::shared_ptr<models::Model> own = nullptr) {
  profile::TensorMemory::track();  // before the first tensor
  SHADE_REQUIRE(!own || recipe.model.is_own(), "a model of the program's own, and the recipe names ",
                recipe.model.model, "; expected '", models::kOwnModel, "'");
  if (own) return own;
  return models::make_model(recipe.model.model, recipe.sizes, recipe.model.options());
}

// Which windows of tokens packed records are cut into.
std::string windows_of(const data::Dataset& records) {
  const auto* texts = dynamic_cast<const data::TextDataset*>(&records);
  if (texts == nullptr) return {};
  return text("tokenizer ", hash::to_hex(hash::digest_of(texts->tokenizer().fingerprint())).substr(0, 16));
}

// A step may be long. Only one rank says so.
void announce_stop(int64_t step, int rank) {
  if (rank != 0) return;
  std::fprintf(stderr, "%sasked to stop: step %lld will be finished and saved; a second signal ends at once\n",
               is_terminal(stderr) ? "\r\033[K" : "", static_cast<long long>(step));
}

}  // namespace

Trainer::Trainer(comm::World& world, Resolved<Recipe> run, std::shared_ptr<const data::Dataset> dataset,
                 Options options)
    : world_(&world),
      run_(std::move(run)),
      options_(std::move(options)),
      model_(counted_model(*run_, options_.model)),
      groups_(shard::connect_groups(world, shard::policy_of(run_->shard, world.size()))),
      dataset_(dataset ? std::move(dataset) : open_records(*run_, *model_, world.place(), groups_.control)),
      test_records_(open_test_records(*run_, *model_, *dataset_, world.place(), groups_.control)),
      split_(split_of(*run_, *dataset_)),
      folder_(
          std::make_unique<RunFolder>(run_->train.output, run_->dp.is_private() ? Readers::owner : Readers::by_umask)) {
  SHADE_CHECK(run_.ranks() == world.size(), "a run that was resolved for ", run_.ranks(), " ranks, in a world of ",
              world.size());
  const auto units = split_.training(unit_of(*run_));
  require_batch(*run_, units);
  event_ = event_of(*run_, units);
  if (world.rank() == 0) warn_of_delta(*run_, event_, units);
  // Written down with the recipe, where a run that is opened later finds them.
  DataFacts facts{.num_classes = options_.model ? std::nullopt : classes_for(*model_, *dataset_),
                  .sigma = event_.mechanism.noise_multiplier};
  if (const auto names = dataset_->classes(); names.size() > 1 && !run_->data.data_folder.empty())
    facts.classes = names;
  run_ = run_.with(facts);
  if (facts.num_classes) model_ = counted_model(*run_);
  job_ = make_job();
  const auto identity = identity_of(*job_);
  job_settings_ = identity.parts.at("job");
  exports_ = std::make_unique<Exports>(*run_, *model_, *dataset_, job_->runtime());
  resume({.digest = identity.digest,
          .settings = settings_of(run_.json(), world.size(), identity.parts),
          .data = text(dataset_->size(), " ", dataset_->fingerprint())});
  if (job_->steps() < last_) {
    exports_->prepare();
    check_space();
  }
}

Trainer::~Trainer() = default;

std::unique_ptr<Job> Trainer::make_job() {
  const auto& recipe = *run_;
  const bool is_private = recipe.dp.is_private();
  JobOptions options{.model = model_.get(),
                     .data = dataset_.get(),
                     .split = split_,
                     .step = {.gradient_norm = true,
                              .method = privacy::method_of(recipe.dp),
                              .noise_seed = recipe.dp.seed(),
                              .stop = by_signal()},
                     .sampling = event_.mechanism,
                     .optimizer = recipe.optim,
                     .shard = recipe.shard,
                     .dtype = dtype_of(recipe.model.dtype),
                     .batch_size = recipe.work.batch_size,
                     .micro_batch = parse_integer(recipe.work.micro_batch).value_or(0),
                     .padding = recipe.work.padding,
                     .max_records_per_user = recipe.budget.max_records_per_user,
                     .steps = recipe.work.steps,
                     .seed = static_cast<uint64_t>(recipe.work.seed),
                     .groups = groups_,
                     .unaccounted = is_private && !no_epsilon(recipe).empty()};
  if (is_private) {
    options.step.privacy = event_;
    options.step.key = [this](int64_t step) { return spending_->history().key_of(step); };
    options.step.before_noise = [this](int64_t step, const hash::Digest& sum) { spending_->spend(step, sum); };
  }
  if (!recipe.model.weights.empty())
    options.weights = [this](shard::Runtime& runtime) {
      start_from(run_->model.weights, model_->parameters(), runtime, static_cast<uint64_t>(run_->work.seed));
    };
  return std::make_unique<Job>(*world_, std::move(options));
}

// The last committed state, if there is one; then all that depends on the incarnation.
void Trainer::resume(RunIdentity identity) {
  const auto& [work, train] = std::tie(run_->work, run_->train);
  const auto exact = identity.digest;
  if (job_->is_private()) {
    checkpoint::together(groups_.control, "looking for an earlier start", [&] {
      if (world_->rank() == 0) require_split_by_rate(folder_->path());
    });
    spending_ = std::make_unique<Spending>(*run_, event_, *folder_, groups_.control, job_->device().is_cpu(),
                                           windows_of(*dataset_));
  }
  checkpoints_ = std::make_unique<Checkpoints>(
      *world_, *folder_, *job_, spending_ ? &spending_->history() : nullptr, std::move(identity),
      Checkpoints::Options{.resume_from = train.resume_from,
                           .keep = train.keep,
                           .save_every = train.save_every,
                           .save_interval = train.save_interval,
                           .model_config = options_.model ? parse_json(model_->config_json()) : Json(),
                           .saves = options_.saves});
  const auto found = checkpoints_->resume();
  if (found) require_same_numbers(found->settings.at("recipe"), *dataset_);
  if (!spending_) require_no_ledger();
  const auto memory = work.memory_limit.count > 0 ? work.memory_limit
                                                  : default_memory_limit(job_->device(), world_->place().local_size);
  if (work.micro_batch == "auto" && found && !checkpoints_->changed())
    job_->use_micro_batch(found->micro_batch);
  else if (work.micro_batch == "auto")
    job_->find_micro_batch(memory);
  else if (!found)
    job_->require_memory_of_users(memory);
  last_ = work.steps;
  if (spending_) {
    spending_->look(text(exact, " micro-batch ", job_->micro_batch()), found ? found->origin : std::nullopt,
                    checkpoints_->saved());
    last_ = spending_->last();
    require_a_step();
  }
  auto& method = job_->method();
  if (found && method.clipper() != nullptr && method.clipper()->adaptive())
    method.clipper()->continue_at(found->clip_norm);
  if (found && found->noise_variance) job_->optimizer().set_noise_variance(*found->noise_variance);
  evaluations_ = std::make_unique<Evaluations>(*job_, Evaluations::Records{*dataset_, split_, test_records_.get()},
                                               train.eval_every);
  peaks_ = peaks_of(groups_.control, work.peak_gflops, job_->runtime().compute(), job_->device());
}

// A run without a step would have nothing to save, evaluate or export. The data ledger refuses such a run itself.
void Trainer::require_a_step() const {
  if (last_ > 0 || !spending_->budget()) return;
  const auto& mechanism = event_.mechanism;
  throw UsageError(text("epsilon ", run_->budget.max_epsilon, " (--max-epsilon) does not allow a step: with sigma ",
                        significant(mechanism.noise_multiplier, 5), " at sample rate ",
                        significant(mechanism.sample_rate, 5), " the first one leads to epsilon ",
                        rounded_up(spending_->budget()->after(1).epsilon),
                        ". Nothing was trained; raise --max-epsilon or --sigma, or lower --batch-size"));
}

// Of a private run whose checkpoints are gone, or that a checkpoint from elsewhere would continue.
void Trainer::require_no_ledger() const {
  checkpoint::together(groups_.control, "looking for a ledger", [&] {
    SHADE_REQUIRE(world_->rank() != 0 || !std::filesystem::exists(folder_->ledger()), folder_->path().string(),
                  " has the ledger of a private run, and this one is not private; choose another directory (--output)");
  });
}

void Trainer::check_space() const {
  const auto& train = run_->train;
  const auto each = checkpoint_bytes(job_->runtime(), job_->optimizer());
  const auto left = last_ - job_->steps();
  // How often save_interval will save is not known; once, at the end, is certain.
  const auto saves = train.save_every > 0 ? (left + train.save_every - 1) / train.save_every : 1;
  checkpoint::together(groups_.control, "looking for space", [&] {
    if (world_->rank() != 0) return;
    std::vector<Need> needs{
        checkpoint_need(folder_->checkpoints(), each, train.keep, std::ssize(checkpoints_->store().list()), saves)};
    for (const auto& need : exports_->needs()) needs.push_back(need);
    require_space(needs);
  });
}

// Asked more often than Options::stop.
std::function<bool()> Trainer::by_signal() const {
  return options_.answer_signals ? &StopSignals::asked : std::function<bool()>();
}

// From here on files of the run are changed.
void Trainer::begin() {
  const auto& recipe = *run_;
  const bool goes_on = job_->steps() < last_;
  if (goes_on && spending_) spending_->history().start();
  if (world_->rank() == 0) folder_->keep_metrics_until(job_->steps());
  report_.emplace(*folder_, Report::Options{.speaks = world_->rank() == 0,
                                            .quiet = options_.quiet,
                                            .is_private = recipe.dp.is_private(),
                                            .void_epsilon = recipe.dp.seed().has_value(),
                                            .no_epsilon = spending_ ? spending_->no_epsilon() : "",
                                            .unit = event_.unit,
                                            .steps = recipe.work.steps,
                                            .done = job_->steps()});
  if (spending_ && spending_->spent() > job_->steps()) report_->before(job_->steps(), spent_after(job_->steps()));
  introduce(*report_, {.recipe = run_,
                       .event = event_,
                       .job = *job_,
                       .data = *dataset_,
                       .split = split_,
                       .folder = *folder_,
                       .checkpoints = *checkpoints_,
                       .spending = spending_.get(),
                       .last = last_,
                       .local_ranks = world_->place().local_size});
  if (goes_on && world_->rank() == 0) {
    folder_->write_recipe(print_toml(run_.json()));
    if (!options_.environment.is_null()) folder_->write_environment(options_.environment);
  }
  if (goes_on) job_->end_at(last_);
  checkpoints_->start_clock();
}

std::optional<privacy::Spent> Trainer::spent_after(int64_t step) const {
  if (!spending_ || !spending_->budget() || world_->rank() != 0) return std::nullopt;
  return spending_->budget()->after(step);
}

StepReport Trainer::measured(const StepRecord& record, Seconds took) const {
  StepReport out{.step = job_->steps(),
                 .record = record,
                 .took = took,
                 .data = job_->loading().waited,
                 .load = job_->loading().took};
  out.memory = profile::peak_memory(job_->device());
  const auto speed = [&](int64_t tokens, double length) {
    Throughput reached{.tokens_per_second = static_cast<double>(tokens) / took.count()};
    const models::BatchShape shape{.samples = 1, .seq_length = std::max<int64_t>(1, std::llround(length))};
    const double flops = reached.tokens_per_second * models::training_flops_per_token(*model_, shape);
    if (peaks_.stated > 0) reached.mfu = flops / peaks_.stated;
    if (peaks_.product > 0) reached.gemm_share = flops / peaks_.product;
    return reached;
  };
  out.speed = speed(record.tokens, record.length);
  out.padded = speed(record.padded_tokens, record.padded_length);
  out.spent = spent_after(out.step);
  return out;
}

TrainResult Trainer::run() {
  SHADE_REQUIRE(!report_,
                "a Trainer runs once: its ledger and its order of steps begin with run(); make a new Trainer, which "
                "continues from the last checkpoint");
  while (next());
  return finish();
}

// Until the first step a signal ends every rank, from then on none.
void Trainer::begin_steps() {
  begin();
  first_ = job_->steps();
  result_ = {.steps = first_, .ended = last_ < run_->work.steps ? Ended::budget : Ended::finished};
  profile::return_unused_heap();  // what only the beginning needed: files that were read, batches that were tried
  current_ = first_;
  if (options_.answer_signals) {
    groups_.control.barrier().wait();
    signals_.emplace([this] { announce_stop(current_, world_->rank()); });
  }
  if (evaluations_->owed(*folder_, last_) && !evaluate_after(first_)) result_.ended = Ended::asked;
}

// Whether there is another step, and the data ledger has counted it.
bool Trainer::may_go_on() {
  if (result_.steps >= last_ || result_.ended == Ended::asked) return false;
  if (!spending_ || spending_->reserve(result_.steps)) return true;
  // Other runs have spent the rest of the data ledger.
  SHADE_REQUIRE(result_.steps > 0, "other runs have spent the rest of the data ledger ", run_->budget.data_ledger,
                " before the first step. Nothing was trained; more noise or a smaller ", "rate may fit (shade ledger ",
                run_->budget.data_ledger, ")");
  last_ = result_.steps;
  result_.ended = Ended::budget;
  if (made_) require_finite_weights(job_->runtime(), *made_, {result_.steps, checkpoints_->saved()});
  if (evaluations_->owed(*folder_, last_)) evaluate_after(last_);
  return false;
}

std::optional<StepRecord> Trainer::next() {
  if (!report_) begin_steps();
  if (over_ || !may_go_on()) {
    over_ = true;
    return std::nullopt;
  }
  const auto begin = Clock::now();
  current_ = result_.steps + 1;
  made_ = job_->step({.stop = options_.stop && options_.stop(), .save = checkpoints_->is_due()});
  after(*made_, Clock::now() - begin);
  return made_;
}

// What is counted, told, evaluated and saved after a step.
void Trainer::after(const StepRecord& record, Seconds took) {
  const auto& train = run_->train;
  const auto step = result_.steps = job_->steps();
  const auto due = [&](int64_t every) { return every > 0 && step % every == 0; };
  result_.tokens += record.tokens;
  result_.padded_tokens += record.padded_tokens;
  result_.took += took;
  if (record.samples.samples > 0) result_.loss = record.loss;
  report_->advance();
  if (record.stop) result_.ended = Ended::asked;
  const bool ends = step == last_ || record.stop;
  const bool evaluates = evaluations_->due(step, last_);
  const bool saves = due(train.save_every) || record.save;
  const Reached reached{step, checkpoints_->saved()};
  if (!job_->is_private()) require_finite_loss(record, reached);
  // Of a private run too: when, doesn't depend on the records, but for save_interval (docs/training.md).
  if (ends || evaluates || due(train.log_every) || saves) require_finite_weights(job_->runtime(), record, reached);
  if (ends || step == 1 || due(train.log_every)) report_->step(measured(record, took));
  if (evaluates && !evaluate_after(step)) result_.ended = Ended::asked;
  if (saves) checkpoints_->save(/*wait=*/false);
}

TrainResult Trainer::finish() {
  SHADE_CHECK(report_, "a run is finished before it began");
  checkpoints_->save(/*wait=*/true);
  if (options_.answer_signals && any_asked()) result_.ended = Ended::asked;
  signals_.reset();
  // A signal that came after the others were asked: there is nothing to lose any more.
  if (options_.answer_signals && result_.ended != Ended::asked && StopSignals::asked()) std::raise(SIGTERM);
  end();
  return result_;
}

// False: it was ended by a request to stop.
bool Trainer::evaluate_after(int64_t step) {
  result_.evaluation = evaluations_->after(step, *report_, by_signal());
  return result_.evaluation.has_value();
}

// What is told, tested and exported after the last step.
void Trainer::end() {
  if (spending_ && spending_->budget()) result_.spent = spending_->budget()->after(result_.steps);
  report_->say(text(to_string(result_.ended), " after step ", result_.steps,
                    result_.ended == Ended::asked ? "; saved, and the same command continues from here" : ""));
  if (result_.tokens > 0)
    report_->say(text(job_->is_private() ? "not private: " : "", result_.tokens, " tokens (", result_.padded_tokens,
                      " with padding) in ", significant(result_.took.count()),
                      " s of steps: ", significant(static_cast<double>(result_.tokens) / result_.took.count()),
                      " tokens/s (", significant(static_cast<double>(result_.padded_tokens) / result_.took.count()),
                      " with padding)"));
  if (const auto data = spending_ ? spending_->settle(result_.steps) : ""; !data.empty()) report_->say(data);
  if (result_.ended == Ended::asked) return state();
  result_.test = evaluations_->test(*report_);
  export_all(/*again=*/result_.steps == first_);
  say_what_was_made();
  if (!spending_) return;
  const auto key = spending_->forget_key(result_.steps, run_->budget.keep_key);
  if (!key.empty()) report_->say(key);
  state();
}

void Trainer::say_what_was_made() {
  auto made = text(folder_->path().string(), " (metrics.jsonl, TensorBoard events, checkpoints)");
  for (const auto& folder : {run_->train.export_folder, run_->train.adapter_folder})
    if (!folder.empty()) made += ", " + folder;
  for (const auto& file : exports_->taken()) report_->say(text("exported from ", file.string()));
  report_->say(text("wrote ", made, "; took ", to_string(report_->elapsed()), spending_ ? " (not private)" : ""));
}

// The last words of a private run.
void Trainer::state() {
  if (!spending_ || world_->rank() != 0 || options_.quiet) return;
  try {
    auto statement = state_privacy(*run_, folder_->path());
    statement.trained_with = program_in(options_.environment);
    for (const auto& line : short_lines(statement)) report_->say(line);
  } catch (const std::exception& fault) {  // all is trained and written: a file that is gone since then changes nothing
    report_->say(text("no privacy statement: ", fault.what()));
  }
}

bool Trainer::any_asked() const {
  const auto wishes = at::full({1}, StopSignals::asked() ? 1.0 : 0.0, at::kDouble);
  groups_.control.all_reduce(wishes, {.label = "stop"}).wait();
  return wishes.item<double>() > 0;
}

void Trainer::export_all(bool again) {
  try {
    if (again) exports_->prepare();
  } catch (const UsageError& taken) {
    const auto why = text("no step was made, and nothing is exported: ", taken.what());
    if (options_.quiet && world_->rank() == 0) log::warning(why);  // a program that exits with 0 must say it
    return report_->say(why);
  }
  const AveragedWeights averaged(job_->runtime(), job_->optimizer());
  exports_->write();
}

Peaks peaks_of(const comm::Group& group, double stated_gflops, at::ScalarType type, at::Device device) {
  if (stated_gflops > 0) return {.stated = stated_gflops * 1e9 * group.size()};
  const auto sum = at::full({1}, profile::peak_gemm_flops(type, device), at::kDouble);
  group.all_reduce(sum, {.label = "peak flops"}).wait();
  return {.product = sum.item<double>()};
}

}  // namespace shade::train
