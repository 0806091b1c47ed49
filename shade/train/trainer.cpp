#include "shade/train/trainer.h"

#include <ATen/ATen.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <numeric>

#include "shade/base/memory_scope.h"
#include "shade/base/span.h"
#include "shade/base/stop_signals.h"
#include "shade/base/strings.h"
#include "shade/checkpoint/agreement.h"
#include "shade/models/flops.h"
#include "shade/profile/heap.h"
#include "shade/profile/memory.h"
#include "shade/train/averaged_weights.h"
#include "shade/train/changes.h"
#include "shade/train/deal.h"
#include "shade/train/finite.h"
#include "shade/train/first_weights.h"
#include "shade/train/records.h"
#include "shade/train/resume.h"
#include "shade/train/setup.h"
#include "shade/train/space.h"

namespace shade::train {
namespace {

std::unique_ptr<models::Model> counted_model(const Recipe& recipe) {
  profile::TensorMemory::track();  // before the first tensor
  return models::make_model(recipe.model.model, recipe.sizes, recipe.model.options());
}

// A step may be long. Only one rank says so.
void announce_stop(int64_t step, int rank) {
  if (rank != 0) return;
  std::fprintf(stderr, "%sasked to stop: step %lld will be finished and saved; a second signal ends at once\n",
               is_terminal(stderr) ? "\r\033[K" : "", static_cast<long long>(step));
}

}  // namespace

Trainer::Trainer(comm::World& world, Recipe& recipe, const Config& config, std::unique_ptr<const data::Dataset> dataset,
                 Options options)
    : world_(&world),
      recipe_(&recipe.resolve(config)),
      options_(std::move(options)),
      model_(counted_model(recipe)),
      groups_(shard::connect_groups(world, shard::policy_of(recipe.shard, world.size()))),
      dataset_(dataset ? std::move(dataset) : open_records(recipe, *model_, world.place(), groups_.control)),
      test_records_(open_test_records(recipe, *model_, *dataset_, world.place(), groups_.control)),
      split_(split_of(recipe, *dataset_)),
      folder_(std::make_unique<RunFolder>(recipe.train.output,
                                          recipe.dp.is_private() ? Readers::owner : Readers::by_umask)) {
  const auto& train = recipe.train;
  if (const auto classes = classes_for(*model_, *dataset_)) {
    recipe.sizes.num_classes = *classes;
    model_ = counted_model(recipe);
  }
  require_batch(recipe, split_.training());
  event_ = event_of(recipe, split_.training());
  recipe.dp.sigma = event_.mechanism.noise_multiplier;
  start_model();
  identity_ = identity_of(config, *model_, *dataset_, *runtime_, *optimizer_);
  settings_ = settings_of(config, world.size(), identity_.parts);
  data_ = text(dataset_->size(), " ", dataset_->fingerprint());
  exports_ = std::make_unique<Exports>(recipe, *model_, *dataset_, *runtime_);
  resume();
  const bool goes_on = optimizer_->steps() < last_;
  if (goes_on) {
    exports_->prepare();
    check_space();
    if (history_) history_->start();
  }
  introduce();  // from here on files of the run are changed
  if (goes_on && world.rank() == 0) folder_->write_recipe(print_toml(config));
}

Trainer::~Trainer() = default;

void Trainer::start_model() {
  const auto& recipe = *recipe_;
  const auto seed = static_cast<uint64_t>(recipe.train.seed);
  runtime_ = std::make_unique<shard::Runtime>(model_->parameters(), groups_, recipe.shard,
                                              shard::Runtime::Options{.compute = dtype_of(recipe.model.dtype)});
  if (recipe.model.weights.empty())
    runtime_->initialise(seed);
  else
    start_from(recipe.model.weights, model_->parameters(), *runtime_, seed);
  optimizer_ = prepared_optimizer(recipe.optim, *runtime_);
}

// The last committed state, if there is one; then all that depends on the incarnation.
void Trainer::resume() {
  const auto& recipe = *recipe_;
  store_ = std::make_unique<checkpoint::Store>(
      world_->group("checkpoint"),
      checkpoint::Store::Options{.folder = folder_->checkpoints(), .keep = recipe.train.keep});
  if (recipe.dp.is_private()) {
    History::Options options{.replayable = runtime_->device().is_cpu()};
    if (recipe.dp.noise_seed >= 0) options.seed = static_cast<uint64_t>(recipe.dp.noise_seed);
    history_ = std::make_unique<History>(*folder_, groups_.control, options);
  }
  const auto found = train::resume(*store_, groups_.control, *runtime_, *optimizer_,
                                   {.from = recipe.train.resume_from, .is_private = recipe.dp.is_private()});
  if (!found && !recipe.dp.is_private()) require_no_ledger();
  if (found) {
    saved_ = optimizer_->steps();
    began_ = found->saved.began;
    compare(found->saved);
  }
  if (recipe.train.micro_batch != "auto")
    micro_batch_ = *parse_integer(recipe.train.micro_batch);
  else if (found && !changed_)
    micro_batch_ = found->saved.micro_batch;
  else
    micro_batch_ = find_micro_batch();
  last_ = recipe.train.steps;
  if (history_) read_history(found ? found->saved.origin : std::nullopt);
  step_ = std::make_unique<Step>(*model_, *runtime_, *optimizer_, optim::make_schedule(recipe.optim), step_options());
  if (step_->method() != nullptr && found && recipe.dp.clip_style == privacy::ClipStyle::adaptive)
    step_->method()->clipper().continue_at(found->saved.clip_norm);
  peaks_ = peaks_of(groups_.control, recipe.train.peak_gflops, runtime_->compute());
}

// Of a private run whose checkpoints are gone.
void Trainer::require_no_ledger() {
  checkpoint::together(groups_.control, "looking for a ledger", [&] {
    SHADE_REQUIRE(world_->rank() != 0 || !std::filesystem::exists(folder_->ledger()), folder_->path().string(),
                  " has the ledger of a private run, and this one is not private; choose another directory (--output)");
  });
}

// With what was saved, by name where that is known.
void Trainer::compare(const Saved& saved) {
  const auto same = [&](const std::string& now, const std::optional<std::string>& before) {
    if (history_) return history_->is_sealed(now, before ? Json(*before) : Json()).value_or(true);
    return before == now;
  };
  changed_ = !same(identity_.digest, saved.identity);
  changes_ = changes(saved.settings, settings_);
  if (saved.data && !same(data_, saved.data)) changes_.push_back(history_ ? "data" : data_change(*saved.data, data_));
}

// What was spent, how far the run may go, and, if steps are left, which keys they have.
void Trainer::read_history(const std::optional<checkpoint::Origin>& from) {
  const bool seeded = recipe_->dp.noise_seed >= 0;
  const auto known =
      history_->look(text(identity_.digest, " micro-batch ", micro_batch_), event_json(event_, seeded), from);
  made_ = known.made;
  no_epsilon_ = no_epsilon(*recipe_);
  std::vector<privacy::Steps> spent;
  for (const auto& [event, steps] : known.spent) {
    spent_ += steps;
    if (event.value("seeded", false) && !seeded && no_epsilon_.empty())
      no_epsilon_ = "the ledger has earlier steps whose noise had a seed";
    // Steps of version 0.1 don't say what they protect.
    const std::string unit = event.contains("unit") ? event["unit"] : folder_->was_packed() ? "window" : "record";
    if (unit != to_string(event_.unit) && no_epsilon_.empty())
      no_epsilon_ = text("the ledger has earlier steps that protect one ", unit, ", not one ", to_string(event_.unit));
    if (const auto mechanism = mechanism_in(event))
      spent.push_back({*mechanism, steps});
    else if (no_epsilon_.empty())
      no_epsilon_ = "the ledger has earlier steps that no accountant answers for";
  }
  if (no_epsilon_.empty()) {
    budget_.emplace(event_, recipe_->budget, spent, known.made);
    last_ = std::stoll(
        checkpoint::from_rank0(groups_.control, "the budget", [&] { return std::to_string(budget_->allowed()); }));
  } else {
    SHADE_REQUIRE(recipe_->budget.max_epsilon == 0, "no epsilon can be kept here: ", no_epsilon_,
                  "; choose another run directory (--output)");
  }
  if (saved_ <= 0 && spent_ > made_) require_restart();
}

// Steps that can neither be continued nor made again to the bit would be spent a second time.
void Trainer::require_restart() const {
  SHADE_REQUIRE(recipe_->train.restart, "the ledger ", folder_->ledger().string(), " has ", spent_, " steps",
                budget_ ? text(" (epsilon ", rounded_up(budget_->after(0).epsilon), ")") : "",
                ", and no checkpoint of them is left. ",
                made_ > 0 ? text("Only ", made_, " of them can") : "They can't",
                " be made again, since settings, data, ranks, program or key are others: steps from the beginning "
                "would be spent on top. Put the checkpoints back, "
                "choose another directory (--output), or accept that with --restart");
}

privacy::NoiseKey Trainer::key_of(int64_t step) const {
  return history_ ? history_->key_of(step) : privacy::seeded_key(static_cast<uint64_t>(recipe_->train.seed));
}

// Asked more often than Options::stop.
std::function<bool()> Trainer::by_signal() const {
  return options_.answer_signals ? &StopSignals::asked : std::function<bool()>();
}

StepOptions Trainer::step_options() const {
  return {.grad_clip = recipe_->optim.grad_clip,
          .gradient_norm = true,
          .dp = recipe_->dp,
          .key = [this](int64_t step) { return key_of(step); },
          .before_noise = [this](int64_t step, const io::Digest& sum) { history_->spend(step, sum); },
          .stop = by_signal(),
          .fixed_samples = micro_batch_};
}

void Trainer::save(bool wait) {
  if (saved_ == optimizer_->steps() || optimizer_->steps() == 0) return wait ? store_->wait() : void();
  const Span span("save");
  Saved words{.identity = identity_.digest,
              .data = data_,
              .micro_batch = micro_batch_,
              .settings = settings_,
              .began = began_,
              .is_private = history_ != nullptr,
              .origin = {}};
  if (history_) {  // others may read a checkpoint, and both follow from the records
    words.identity = history_->sealed(identity_.digest);
    words.data = history_->sealed(data_);
    words.origin = history_->origin(optimizer_->steps());
    words.clip_norm = step_->method()->clipper().clip_norm();
  }
  store_->save_async(*runtime_, *optimizer_, words.json());
  saved_at_ = Clock::now();
  saved_ = optimizer_->steps();
  if (wait) store_->wait();
}

int64_t Trainer::find_micro_batch() {
  const auto& train = recipe_->train;
  const int ranks = world_->size();
  const auto limit =
      train.memory_limit.count > 0 ? train.memory_limit : default_memory_limit(world_->place().local_size);
  auto options = step_options();
  options.rehearsal = true;   // no noise is drawn, and a record may come twice
  options.fixed_samples = 0;  // as they come
  Step trial(*model_, *runtime_, *optimizer_, optim::make_schedule(recipe_->optim), options);
  const auto choice =
      choose_micro_batch(groups_.control, (train.batch_size + ranks - 1) / ranks, limit, [&](int64_t samples) {
        std::vector<int64_t> records;
        for (int64_t i = 0; i < samples; ++i) records.push_back(split_.training_record(i % split_.training()));
        const auto batch = dataset_->batch(records);
        // One document is the most that attention can need, and what these records need is not public.
        if (batch.documents_BT.defined()) batch.documents_BT.zero_();
        trial.gradients({&batch, 1});
        runtime_->updated();  // the gradients are given up
      });
  return choice.samples;
}

void Trainer::introduce() {
  const auto& [recipe, train] = std::tie(*recipe_, recipe_->train);
  if (world_->rank() == 0) folder_->keep_metrics_until(optimizer_->steps());
  report_.emplace(*folder_, Report::Options{.speaks = world_->rank() == 0,
                                            .quiet = options_.quiet,
                                            .is_private = recipe.dp.is_private(),
                                            .void_epsilon = recipe.dp.noise_seed >= 0,
                                            .unit = event_.unit,
                                            .steps = train.steps,
                                            .done = optimizer_->steps()});
  report_->say(text("model    ", model_->describe(), "; ", model_->parameters().count(), " parameters, ",
                    model_->parameters().count_trainable(), " trained"));
  report_->say(text("weights  ", recipe.decisions.weights));
  if (recipe.optim.ema > 0)
    report_->say(text("         their moving average (--ema ", recipe.optim.ema, ") is evaluated and exported"));
  report_->say(text("data     ", recipe.data.data_folder.empty() ? "" : recipe.data.data_folder + ": ",
                    dataset_->describe(), "; ", split_.describe(),
                    recipe.dp.is_private() ? " (counts are not private)" : ""));
  if (dynamic_cast<const data::TextDataset*>(dataset_.get()) != nullptr)
    report_->say(text("tokens   ", recipe.decisions.tokenizer));
  report_->say(text("batches  ", sampler({})->describe(), "; ", micro_batch_, " samples at a time on each of ",
                    world_->size(), world_->size() == 1 ? " rank (" : " ranks (", to_string(recipe.shard.shard), ")"));
  if (!recipe.dp.is_private()) {
    report_->say(text("privacy  none: ", recipe.decisions.privacy));
  } else if (!budget_) {
    report_->say(
        text("privacy  ", to_string(recipe.dp.dp), ", sigma ", recipe.dp.sigma, "; no epsilon: ", no_epsilon_));
  } else {
    const auto steps = std::max(last_, made_);
    const auto end = budget_->after(steps);
    report_->say(text("privacy  ", to_string(recipe.dp.dp), ", clip norm ", event_.clip_norm, ", sigma ",
                      significant(recipe.dp.sigma, 5), "; epsilon ", rounded_up(end.epsilon), " at delta ",
                      event_.delta, " after ", steps, " steps by ", to_string(end.accountant),
                      "; neighbouring data sets: ", adjacency(event_.unit),
                      recipe.dp.noise_seed >= 0 ? "; the noise is seeded: NOT private" : ""));
  }
  if (recipe.dp.is_private()) report_->say(text("         ", recipe.decisions.privacy));
  report_->say(text("run      ", folder_->path().string(),
                    saved_ >= 0 ? text(", continued after step ", saved_) : ", from the beginning"));
  if (saved_ < 0 && made_ > 0)
    report_->say(text("         the ledger has ", made_, " steps; they are made again to the bit, and count once"));
  if (spent_ > made_) report_->say(text("         the ledger has ", spent_ - made_, " more steps, which stay counted"));
  if (!began_.empty()) report_->say(text("         began from ", began_, " (--resume-from)"));
  if (!changes_.empty()) report_->say(text("         changed: ", join(changes_, ", ")));
  if (changed_ && changes_.empty()) report_->say("         with other settings, data, ranks or program than before");
  if (changed_ && recipe.dp.is_private())
    report_->say("         steps from here have noise of their own, and count anew");
  if (budget_ && optimizer_->steps() >= last_ && last_ < train.steps)
    report_->say(text("         nothing is left of epsilon ", recipe.budget.max_epsilon,
                      "; a larger --max-epsilon goes on, another --output begins anew"));
}

std::unique_ptr<data::Sampler> Trainer::sampler(const privacy::NoiseKey& key) const {
  return make_sampler(event_, split_.training(), recipe_->train.batch_size, key);
}

Trainer::Loaded Trainer::load(int64_t step) const {
  const MemoryScope scope(MemoryKind::data);
  const auto begin = Clock::now();
  auto drawn = sampler(key_of(step))->draw(step);
  for (auto& record : drawn) record = split_.training_record(record);
  Loaded out{.samples = static_cast<int64_t>(drawn.size())};
  for (const auto& mine : deal(drawn, world_->size(), world_->rank(), micro_batch_)) {
    out.micro_batches.push_back(dataset_->batch_at(mine, static_cast<uint64_t>(step)));
    out.micro_batches.back().records.assign(mine.begin(), mine.end());
  }
  out.took = Clock::now() - begin;
  return out;
}

StepReport Trainer::measured(const StepRecord& record, const Loaded& batch, Seconds took, Seconds waited) {
  const models::BatchShape shape{.samples = 1, .seq_length = recipe_->train.seq_length};
  StepReport out{.step = optimizer_->steps(), .record = record, .took = took, .data = waited, .load = batch.took};
  out.memory = profile::TensorMemory::peak();
  out.tokens_per_second = static_cast<double>(record.tokens) / took.count();
  const double flops = out.tokens_per_second * models::training_flops_per_token(*model_, shape);
  if (peaks_.stated > 0) out.mfu = flops / peaks_.stated;
  if (peaks_.product > 0) out.gemm_share = flops / peaks_.product;
  if (budget_ && world_->rank() == 0) out.spent = budget_->after(out.step);
  return out;
}

TrainResult Trainer::run() {
  const auto& train = recipe_->train;
  const auto first = optimizer_->steps();
  saved_at_ = Clock::now();
  TrainResult result{.steps = first, .ended = last_ < train.steps ? Ended::budget : Ended::finished};
  const auto ahead = [&](int64_t step) { return std::async(std::launch::async, [this, step] { return load(step); }); };
  profile::return_unused_heap();  // what only the beginning needed: files that were read, batches that were tried
  const auto due = [&](int64_t every) { return every > 0 && result.steps % every == 0; };
  std::atomic<int64_t> current{first};
  std::optional<StopSignals> signals;
  if (options_.answer_signals) {
    groups_.control.barrier().wait();  // until now a signal ends every rank, from now on none
    signals.emplace([&] { announce_stop(current, world_->rank()); });
  }
  if (owes_evaluation() && !evaluate_after(first, result)) result.ended = Ended::asked;
  std::future<Loaded> next;
  if (result.steps < last_) next = ahead(result.steps);
  while (result.steps < last_ && result.ended != Ended::asked) {
    const auto begin = Clock::now();
    current = result.steps + 1;
    const auto batch = next.get();
    const Seconds waited = Clock::now() - begin;
    if (result.steps + 1 < last_) next = ahead(result.steps + 1);
    const auto divisor = recipe_->dp.is_private() ? std::optional(event_.divisor) : std::nullopt;
    const auto record =
        step_->run(batch.micro_batches, divisor, {.stop = options_.stop && options_.stop(), .save = save_is_due()});
    result.steps = optimizer_->steps();
    if (record.samples.samples > 0) result.loss = record.loss;
    report_->advance();
    if (record.stop) result.ended = Ended::asked;
    const bool end = result.steps == last_ || record.stop;
    const bool evaluates = split_.evaluation() > 0 && (result.steps == last_ || due(train.eval_every));
    const bool saves = due(train.save_every) || record.save;
    if (!recipe_->dp.is_private()) require_finite_loss(record, {result.steps, saved_});
    // Of a private run too: when, doesn't depend on the records, but for save_interval (docs/training.md).
    if (end || evaluates || due(train.log_every) || saves)
      require_finite_weights(*runtime_, record, {result.steps, saved_});
    if (end || result.steps == 1 || due(train.log_every))
      report_->step(measured(record, batch, Clock::now() - begin, waited));
    if (evaluates && !evaluate_after(result.steps, result)) result.ended = Ended::asked;
    if (saves) save(/*wait=*/false);
  }
  save(/*wait=*/true);
  if (options_.answer_signals && any_asked()) result.ended = Ended::asked;
  signals.reset();
  // A signal that came after the others were asked: there is nothing to lose any more.
  if (options_.answer_signals && result.ended != Ended::asked && StopSignals::asked()) std::raise(SIGTERM);
  if (budget_) result.spent = budget_->after(result.steps);
  report_->say(text(to_string(result.ended), " after step ", result.steps,
                    result.ended == Ended::asked ? "; saved, and the same command goes on from here" : ""));
  if (result.spent)
    report_->say(text("epsilon ", rounded_up(result.spent->epsilon), " at delta ", result.spent->delta, " by ",
                      to_string(result.spent->accountant), recipe_->dp.noise_seed >= 0 ? " (seeded: void)" : "",
                      "; neighbouring data sets: ", adjacency(event_.unit)));
  if (result.ended == Ended::asked) return result;
  if (test_records_) result.test = test();
  if (result.steps > 0 || result.ended != Ended::budget) export_all(/*again=*/result.steps == first);
  forget_key();
  return result;
}

// False: it was ended by a request to stop.
bool Trainer::evaluate_after(int64_t step, TrainResult& result) {
  const AveragedWeights averaged(*runtime_, *optimizer_);
  result.evaluation = evaluate(*model_, *runtime_, *dataset_, split_.evaluation_records(), micro_batch_, by_signal());
  if (result.evaluation)
    report_->evaluation(step, *result.evaluation, "eval");
  else
    report_->say(text("  the evaluation after step ", step, " was left out; it is made when the run goes on"));
  return result.evaluation.has_value();
}

// A request to stop ended the one that was due after the step we continue from.
bool Trainer::owes_evaluation() const {
  const auto step = optimizer_->steps();
  if (split_.evaluation() == 0 || step == 0 || (step != last_ && step % recipe_->train.eval_every != 0)) return false;
  return !checkpoint::from_rank0(groups_.control, "looking for the last evaluation", [&] {
            return std::string(folder_->was_evaluated(step) ? "" : "owed");
          }).empty();
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
    return report_->say(text("no step was made, and nothing is exported: ", taken.what()));
  }
  const AveragedWeights averaged(*runtime_, *optimizer_);
  exports_->write();
}

// By the clock of rank 0; the others learn of it with the step's losses.
bool Trainer::save_is_due() const {
  const auto& train = recipe_->train;
  return world_->rank() == 0 && train.save_every == 0 && train.save_interval.count() > 0 &&
         Clock::now() - saved_at_ >= train.save_interval;
}

// The key has no use any more, and is the one thing that could undo the noise.
void Trainer::forget_key() {
  if (!history_) return;
  if (optimizer_->steps() < made_)
    return report_->say(text("the noise key stays: the ledger has ", made_, " steps, which can be made again"));
  const auto gone = checkpoint::from_rank0(groups_.control, "deleting the key", [&] {
    if (recipe_->train.keep_key) return std::string(folder_->find_key() ? "kept" : "");
    return std::string(folder_->destroy_key() ? "deleted" : "");
  });
  if (gone == "deleted")
    report_->say("the noise key was deleted: the noise can't be subtracted any more, and more steps get a new key");
  if (gone == "kept")
    report_->say(text("the noise key stays in ", (folder_->path() / "key").string(),
                      " (--keep-key): anyone who reads it can subtract the noise"));
}

Evaluation Trainer::test() {
  const AveragedWeights averaged(*runtime_, *optimizer_);
  std::vector<int64_t> all(static_cast<size_t>(test_records_->size()));
  std::iota(all.begin(), all.end(), 0);
  const auto found = *evaluate(*model_, *runtime_, *test_records_, all, micro_batch_);
  report_->evaluation(optimizer_->steps(), found, "test");
  return found;
}

void Trainer::check_space() {
  const auto& train = recipe_->train;
  const auto each = checkpoint_bytes(*runtime_, *optimizer_);
  const auto left = last_ - optimizer_->steps();
  // How often save_interval will save is not known; once, at the end, is certain.
  const auto saves = train.save_every > 0 ? (left + train.save_every - 1) / train.save_every : 1;
  checkpoint::together(groups_.control, "looking for space", [&] {
    if (world_->rank() != 0) return;
    std::vector<Need> needs{
        checkpoint_need(folder_->checkpoints(), each, train.keep, std::ssize(store_->list()), saves)};
    for (const auto& need : exports_->needs()) needs.push_back(need);
    require_space(needs);
  });
}

}  // namespace shade::train
