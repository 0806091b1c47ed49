#include "shade/train/step/job.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "shade/base/config.h"
#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/catalog/parts.h"
#include "shade/checkpoint/agreement.h"
#include "shade/hash/digest.h"
#include "shade/privacy/mechanism_version.h"
#include "shade/train/budget/budget.h"
#include "shade/train/budget/history.h"
#include "shade/train/budget/identity.h"
#include "shade/train/feed/micro_batch.h"
#include "shade/train/spec/computes_with.h"
#include "shade/train/step/job_settings.h"
#include "shade/train/step/slots.h"

namespace shade::train {
namespace {

constexpr int64_t kGoodPositions = 1024;  // of a micro-batch: more make matrix products of a CPU no faster

}  // namespace

Job::Job(comm::World& world, JobOptions options)
    : options_(std::move(options)),
      ranks_(world.size()),
      rank_(world.rank()),
      world_(world_settings(world).dump()),
      end_(options_.steps) {
  const auto device = options_.device.value_or(world.device());
  nn::use_device(device);
  SHADE_REQUIRE(options_.model != nullptr, "a job without a model; set JobOptions::model");
  SHADE_REQUIRE(options_.folder.empty() || (is_private() && !options_.step.key),
                "a folder is for the ledger of a private job that has no key of its own");
  SHADE_REQUIRE(options_.folder.empty() || !options_.step.rehearsal,
                "a rehearsal has no ledger: what it does counts nowhere; leave out JobOptions::folder");
  SHADE_REQUIRE(options_.step.grad_clip == 0, "JobOptions::step has a grad_clip of ", options_.step.grad_clip,
                ", which is the optimizer's to say; set JobOptions::optimizer.grad_clip");
  if (is_private() && options_.data != nullptr && options_.batch_size == 0)
    options_.batch_size = std::llround(options_.step.privacy->divisor);
  SHADE_REQUIRE(options_.data == nullptr || options_.batch_size > 0, "a batch of ", options_.batch_size,
                " samples; expected at least 1: JobOptions::batch_size, or the divisor of the privacy event");
  if (is_private()) require_private(options_);
  require_noise_for(options_.optimizer, is_private());
  no_epsilon_ = train::no_epsilon(options_);
  if (is_private() && end_ == 0) end_ = options_.step.privacy->steps;
  micro_batch_ = options_.micro_batch > 0 ? options_.micro_batch
                 : is_private()           ? most_fixed()
                                          : (options_.batch_size + ranks_ - 1) / ranks_;
  const auto policy = shard::policy_of(options_.shard, ranks_);
  auto groups = options_.groups ? *options_.groups : shard::connect_groups(world, policy);
  groups.policy = policy;
  auto words = shared_settings(options_);
  words["job"]["device"] = c10::DeviceTypeName(device.type(), /*lower_case=*/true);
  require_same(groups.control, words);
  if (is_private() && !options_.step.rehearsal)
    require_computing_alike(groups.control, device);  // before weights are read
  if (is_private()) require_same_records(groups.control, options_);
  runtime_ = std::make_unique<shard::Runtime>(options_.model->parameters(), std::move(groups), options_.shard,
                                              shard::Runtime::Options{.compute = options_.dtype, .device = device});
  if (options_.weights)
    options_.weights(*runtime_);
  else
    runtime_->initialise(options_.seed);
  optimizer_ = prepared_optimizer(options_.optimizer, *runtime_);
  if (is_private() && !options_.step.rehearsal) optimizer_->before_update([] { require_released(false); });
  if (!options_.folder.empty()) open_ledger(options_.folder);
}

Job::~Job() = default;

// Steps are counted before their noise is drawn, and none is made again: every job in the folder begins a stretch of
// steps of its own. So the key has no use on disk.
void Job::open_ledger(const std::string& folder) {
  const auto& event = *options_.step.privacy;
  folder_ = std::make_unique<RunFolder>(folder, Readers::owner);
  checkpoint::together(groups().control, "looking for another run", [&] {
    // A RunFolder makes the folder of checkpoints; only a run that saved has some in it.
    SHADE_REQUIRE(rank_ != 0 || (std::filesystem::is_empty(folder_->checkpoints()) && !folder_->find_key()), folder,
                  " has checkpoints or the noise key of a run that may go on (shade train); choose another folder");
  });
  history_ = std::make_unique<History>(*folder_, groups().control,
                                       History::Options{.seed = options_.step.noise_seed, .replayable = false});
  const bool seeded = options_.step.noise_seed.has_value();
  const auto known = history_->look("job", event_json(event, seeded, !options_.unaccounted), std::nullopt);
  auto earlier = earlier_steps(known.spent, event, seeded);
  earlier_ = std::move(earlier.steps);
  if (no_epsilon_.empty()) no_epsilon_ = earlier.no_epsilon;
  history_->start();
  checkpoint::together(groups().control, "deleting the key", [&] {
    if (rank_ == 0) folder_->destroy_key();
  });
  options_.step.key = [this](int64_t step) { return history_->key_of(step); };
  options_.step.before_noise = [this, also = options_.step.before_noise](int64_t step, const hash::Digest& sum) {
    history_->spend(step, sum);
    if (also) also(step, sum);
  };
}

StepOptions Job::step_options() const {
  auto out = options_.step;
  out.grad_clip = options_.optimizer.grad_clip;
  out.micro_shapes = shapes_.value_or(micro_batch_);
  return out;
}

Step& Job::stepper() {
  if (step_) return *step_;
  if (!options_.step.key) {
    const auto key =
        is_private() ? agreed_key(groups().control, options_.step.noise_seed) : privacy::seeded_key(options_.seed);
    options_.step.key = [key](int64_t) { return key; };
  }
  shapes();
  auto step = std::make_unique<Step>(*options_.model, *runtime_, *optimizer_, optim::make_schedule(options_.optimizer),
                                     step_options());
  if (is_private()) {
    auto words = clip_settings(step->method());
    words["micro_batch"] = micro_batch_;
    require_same(groups().control, words);
  }
  step_ = std::move(step);
  return *step_;
}

// Steps that the optimizer made before were drawn elsewhere, and what they spent is not known here.
Step& Job::next_step() {
  auto& step = stepper();
  if (step.noised() > 0 || !is_private() || options_.step.rehearsal || steps() == 0) return step;
  SHADE_REQUIRE(!history_, "the optimizer is at step ", steps(),
                " before the first step of this job, whose ledger begins at step 0; a state that was trained on is "
                "continued by shade train, or starts as weights without their optimizer");
  if (no_epsilon_.empty()) no_epsilon_ = text("the optimizer was at step ", steps(), " before the job's first step");
  return step;
}

void Job::add_noise() { stepper().add_noise(); }

void Job::end_at(int64_t steps) {
  SHADE_REQUIRE(steps > 0 && (end_ == 0 || steps <= end_), "an end after ", steps, " steps; expected 1 to ",
                end_ == 0 ? "any number" : std::to_string(end_), ", the number of steps in the options");
  end_ = steps;
}

std::unique_ptr<Loader> Job::make_loader() {
  SHADE_REQUIRE(options_.data != nullptr, "a job without a data set; set JobOptions::data, or pass batches to step()");
  const privacy::PrivacyEvent shuffled{.mechanism = {.sampler = privacy::Sampler::shuffled}};
  auto event = options_.step.privacy.value_or(shuffled);
  if (!is_private() && options_.sampling) event.mechanism = *options_.sampling;
  return std::make_unique<Loader>(
      *options_.data, Loader::Options{.split = options_.split.value_or(HeldOut::by_position(options_.data->size(), 0)),
                                      .event = event,
                                      .batch_size = options_.batch_size,
                                      .shapes = shapes(),
                                      .max_records_per_user = options_.max_records_per_user,
                                      .ranks = ranks_,
                                      .rank = rank_,
                                      .device = device(),
                                      .key = options_.step.key});
}

std::string Job::describe_batches() { return make_loader()->describe(); }

std::optional<StepRecord> Job::step(Step::Wishes wishes) {
  if (end_ > 0 && steps() >= end_) return std::nullopt;
  auto& step = next_step();
  if (!loader_) loader_ = make_loader();
  const auto begin = Clock::now();
  const auto loaded = loader_->take(steps(), end_ > 0 ? end_ : std::numeric_limits<int64_t>::max());
  loading_ = {.waited = Clock::now() - begin, .took = loaded.took};
  return step.run(loaded.micro_batches, std::nullopt, wishes);
}

StepRecord Job::step(std::span<const nn::Batch> micro_batches, Step::Wishes wishes) {
  SHADE_REQUIRE(!is_private() || options_.unaccounted || options_.step.rehearsal,
                "batches from outside in a private job: the epsilon of its event holds for the event's sampler alone; "
                "give the job its data set, or say that it is unaccounted");
  return next_step().run(micro_batches, std::nullopt, wishes);
}

void Job::use_micro_batch(int64_t samples) {
  SHADE_CHECK(!step_, "the micro-batch is chosen before the first step");
  SHADE_REQUIRE(samples > 0, "a micro-batch of ", samples, " samples; expected at least 1");
  micro_batch_ = samples;
  shapes_.reset();
}

// Of a private job, whose micro-batches are filled up with blank samples, half a micro-batch of them at each shape that
// occurs: so many that blanks are about 1 in 32 samples, or as many as make good matrix products.
int64_t Job::most_fixed() const {
  const auto mine = std::max<int64_t>(1, options_.batch_size / ranks_);
  const MicroShapes one(shapes_of(1));
  const auto enough = one.full().positions() > 0 ? kGoodPositions / one.full().positions() : 0;
  return std::clamp<int64_t>(std::max(mine / (16 * one.count()), enough), 1, std::max<int64_t>(1, mine / 8));
}

int64_t Job::rows_of_sample() const {
  const bool users = is_private() && options_.step.privacy->unit == privacy::PrivacyUnit::user;
  return users ? std::max<int64_t>(1, options_.max_records_per_user) : 1;
}

MicroShapes::Options Job::shapes_of(int64_t micro_batch) const {
  const auto length = options_.data != nullptr ? options_.data->max_length() : 0;
  return {
      .samples = micro_batch, .full = {rows_of_sample(), length}, .padding = options_.padding, .grid = is_private()};
}

const MicroShapes& Job::shapes() {
  if (shapes_) return *shapes_;
  auto out = shapes_of(micro_batch_);
  if (is_private()) out.most = most_fixed();
  if (MicroShapes(out).vary() && !rehearsal().method().grows_with_positions()) out.most = micro_batch_;
  return shapes_.emplace(out);
}

Step Job::rehearsal() {
  auto options = step_options();
  options.rehearsal = true;  // no noise is drawn, and a record may come twice
  options.micro_shapes = 0;  // as they come
  return Step(*options_.model, *runtime_, *optimizer_, optim::make_schedule(options_.optimizer), options);
}

std::string Job::name_of(SpanName span, int64_t index) {
  if (index < 0) return {};
  if (counts_weights(span)) return model().parameters().weights()[static_cast<size_t>(index)].name();
  if (counts_units(span)) return runtime_->units()[static_cast<size_t>(index)]->layout().name;
  return {};
}

catalog::PeakOwner Job::owner_of(const profile::PeakPlace& place) {
  const bool inside = place.within != SpanName::other;
  return {.phase = place.phase,
          .within = place.within,
          .unit = name_of(SpanName::unit_forward, place.unit),
          .layer = name_of(inside ? place.within : place.phase, place.index),
          .kind = place.kind,
          .bytes = place.bytes};
}

std::string Job::settings() {
  SHADE_CHECK(!step_, "a job is put into words before its first step");
  auto out = deciding_settings(options_);
  out["job"]["micro_batch"] = micro_batch_;
  out["job"]["device"] = c10::DeviceTypeName(device().type(), /*lower_case=*/true);  // which of them doesn't matter
  out["world"] = parse_json(world_);
  out["data"] = record_settings(options_);
  out.update(clip_settings(rehearsal().method()));
  return out.dump();
}

// Makes the gradients of samples that have so many rows each, and gives them up.
void Job::try_samples(Step& trial, int64_t samples, int64_t rows) {
  const auto training = options_.split ? options_.split->training() : options_.data->size();
  std::vector<int64_t> records;
  for (int64_t i = 0; i < samples * rows; ++i)
    records.push_back(options_.split ? options_.split->training_record(i % training) : i % training);
  auto batch = options_.data->batch(records);
  batch.rows_per_sample = rows;
  // What these records need is not public. One document is the most that attention can need, and one token that of
  // tables.
  if (is_private()) batch = blank(batch);
  batch = batch.to(device());
  trial.gradients({&batch, 1});
  runtime_->updated();  // the gradients are given up
}

void Job::require_memory_of_users(Bytes limit) {
  const auto rows = rows_of_sample();
  if (rows == 1) return;
  auto trial = rehearsal();
  require_records_fit(groups().control, rows, {limit, device()},
                      [&](int64_t some) { try_samples(trial, /*samples=*/1, some); });
}

void Job::find_micro_batch(Bytes limit) {
  SHADE_REQUIRE(options_.data != nullptr, "a micro-batch is found by trying records; set JobOptions::data");
  require_memory_of_users(limit);
  auto trial = rehearsal();
  const auto most = is_private() ? most_fixed() : (options_.batch_size + ranks_ - 1) / ranks_;
  const auto choice = choose_micro_batch(groups().control, most, {limit, device()},
                                         [&](int64_t samples) { try_samples(trial, samples, rows_of_sample()); });
  use_micro_batch(choice.samples);
}

std::optional<privacy::Spent> Job::spent(privacy::Accountant accountant) const {
  if (!no_epsilon_.empty()) return std::nullopt;
  auto all = earlier_;
  all.push_back({options_.step.privacy->mechanism, step_ ? step_->noised() : 0});
  return privacy::spent(accountant, all, options_.step.privacy->delta);
}

}  // namespace shade::train
