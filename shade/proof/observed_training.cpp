#include "shade/proof/observed_training.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "shade/base/error.h"
#include "shade/nn/sample_rows.h"
#include "shade/privacy/noise.h"
#include "shade/train/budget/budget.h"
#include "shade/train/feed/loader.h"

namespace shade::proof {
namespace {

// How far noise of one deviation moves a weight: far enough that rounding weights to fp32 hides nothing of the sum, and
// little enough that a few steps leave the model one that can be trained.
constexpr double kMove = 1e-3;

double learning_rate(const privacy::PrivacyEvent& event) { return kMove * event.divisor / event.noise_deviation(); }

train::MadeUpData records_for(const models::Model& model, const Audit& what) {
  return {model, std::numeric_limits<int32_t>::max(), what.work.seq_length, static_cast<uint64_t>(what.work.seed),
          train::scalar_type(what.model.dtype)};
}

std::unique_ptr<models::Model> model_of(const Audit& what) {
  return models::make_model(what.model.model, what.sizes, what.model.options());
}

Parts masters_of(train::Job& job) {
  Parts out;
  for (const auto& shard : job.runtime().shards()) out.push_back(shard.master);
  job.runtime().updated();  // the gradients that shards() made
  return out;
}

}  // namespace

double dot(const Parts& a, const Parts& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i].to(at::kDouble).dot(b[i].to(at::kDouble)).item<double>();
  return sum;
}

Parts gradient_sums(train::Job& job, std::span<const nn::Batch> batches) {
  job.gradients(batches);
  Parts out;
  for (const auto& shard : job.runtime().shards()) out.push_back(shard.gradient.clone());
  return out;
}

at::Tensor over_ranks(at::Tensor partial, const shard::Groups& groups) {
  groups.control.all_reduce(partial, {.label = "audit"}).wait();
  return partial / static_cast<double>(groups.policy.replicate);
}

AuditedEvent::AuditedEvent(const Audit& what, int64_t units)
    : records_per_unit(what.budget.max_records_per_user), rows(records_per_unit) {
  const auto& config = what.audit;
  claimed = {.mechanism = {.sample_rate = what.budget.sample_rate, .noise_multiplier = what.dp.sigma},
             .clip_norm = what.dp.max_grad_norm,
             .divisor = std::max(1.0, what.budget.sample_rate * static_cast<double>(units)),
             .unit = records_per_unit > 1 ? privacy::PrivacyUnit::user : privacy::PrivacyUnit::record,
             .steps = what.work.steps,
             .delta = what.budget.delta};
  claimed.require_valid();
  made = claimed;
  auto& mechanism = made.mechanism;
  switch (config.fault) {
    case AuditFault::half_noise: mechanism.noise_multiplier /= 2; break;
    case AuditFault::no_clip:  // a bound that nothing reaches, and the same noise
      made.clip_norm *= 1e6;
      mechanism.noise_multiplier *= 1e-6;
      break;
    case AuditFault::no_sampling: mechanism.sample_rate = 1; break;
    case AuditFault::clip_records:
      made.unit = privacy::PrivacyUnit::record;
      rows = 1;
      break;
    case AuditFault::none:
    case AuditFault::rank0_noise:
    case AuditFault::reused_noise: break;  // made after each step
  }
}

Observer::Observer(comm::World& world, const Audit& what, const AuditedEvent& event, const shard::Groups& groups,
                   int64_t micro_batch)
    : event_(event),
      model_(model_of(what)),
      records_(records_for(*model_, what)),
      job_(world, {.model = model_.get(),
                   .step = {.privacy = event.made,
                            .method = privacy::method_of(what.dp),
                            .noise_seed = 0,  // no noise is drawn
                            .rehearsal = true},
                   .shard = what.shard,
                   .dtype = train::dtype_of(what.model.dtype),
                   .micro_batch = micro_batch,
                   .seed = static_cast<uint64_t>(what.work.seed),
                   .groups = groups}),
      masters_(masters_of(job_)),
      micro_batch_(micro_batch) {}

void Observer::look_at(const Parts& weights) {
  for (size_t i = 0; i < weights.size(); ++i) masters_[i].copy_(weights[i]);
  job_.runtime().updated();
}

Parts Observer::sum(const std::vector<int64_t>& samples) {
  std::vector<train::Sample> all;
  for (const auto unit : samples) all.push_back({.record = unit});
  const auto& control = job_.groups().control;
  std::vector<nn::Batch> batches;
  for (const auto& micro : train::deal(std::move(all), micro_batch_, {control.size(), control.rank()})) {
    std::vector<int64_t> rows;
    for (const auto unit : micro.records) rows.insert(rows.end(), static_cast<size_t>(event_.rows), unit);
    auto batch = records_.batch(rows);
    batch.rows_per_sample = event_.rows;
    batches.push_back(batch.to(job_.device()));
  }
  auto out = gradient_sums(job_, batches);
  job_.runtime().updated();
  return out;
}

std::vector<double> Observer::losses(std::span<const int64_t> units) {
  const at::NoGradGuard no_graph;
  std::vector<double> out;
  for (const auto unit : units) {  // alone, so that other samples don't change how it is rounded
    job_.runtime().begin_forward();
    out.push_back(model_->losses(records_.batch({&unit, 1}).to(job_.device())).item<double>());
  }
  job_.runtime().updated();
  return out;
}

ObservedTraining::ObservedTraining(comm::World& world, const Audit& what, const AuditedEvent& event,
                                   const shard::Groups& groups, std::vector<int64_t> units,
                                   const privacy::NoiseKey& key)
    : fault_(what.audit.fault),
      event_(event),
      key_(key),
      rank_(world.rank()),
      model_(model_of(what)),
      records_(records_for(*model_, what), std::move(units), event.records_per_unit),
      split_(event.made.unit == privacy::PrivacyUnit::user ? train::HeldOut::by_user(records_, 0)
                                                           : train::HeldOut::by_position(records_.size(), 0)) {
  const optim::OptimConfig plain{
      .optimizer = optim::Algorithm::sgd, .lr = learning_rate(event.made), .weight_decay = 0};
  job_ = std::make_unique<train::Job>(
      world, train::JobOptions{
                 .model = model_.get(),
                 .data = &records_,
                 .split = split_,
                 .step = {.privacy = event.made,
                          .method = privacy::method_of(what.dp),
                          .key = [key = key_](int64_t) { return key; }},
                 .optimizer = plain,
                 .shard = what.shard,
                 .dtype = train::dtype_of(what.model.dtype),
                 .batch_size = std::max<int64_t>(1, std::llround(event.made.divisor)),
                 .micro_batch = what.audit.micro_batch,
                 .max_records_per_user = event.made.unit == privacy::PrivacyUnit::user ? event.records_per_unit : 0,
                 .seed = static_cast<uint64_t>(what.work.seed),
                 .groups = groups,
                 .unaccounted = fault_ != AuditFault::none});
  masters_ = masters_of(*job_);
}

std::vector<int64_t> ObservedTraining::drawn() const {
  const auto sampler = train::make_sampler(event_.made, split_.training(event_.made.unit), 0, key_);
  std::vector<int64_t> out;
  for (const auto number : sampler->draw(job_->steps()))
    out.push_back(records_.unit_of(split_.users() == nullptr ? split_.training_record(number)
                                                             : split_.users()->records_of(number).front()));
  return out;
}

Parts ObservedTraining::step() {
  Parts before;
  for (const auto& master : masters_) before.push_back(master.clone());
  const auto step = job_->steps();
  SHADE_CHECK(job_->step().has_value(), "the training was over after ", step, " steps");
  plant(step);
  const double scale = event_.made.divisor / learning_rate(event_.made);
  for (size_t i = 0; i < before.size(); ++i) before[i].sub_(masters_[i]).mul_(scale);
  return before;
}

// Takes the noise of this step from the weights that shouldn't have it, by the fault, and adds what they have instead.
void ObservedTraining::plant(int64_t step) {
  const bool silent = fault_ == AuditFault::rank0_noise && rank_ != 0;
  const bool again = fault_ == AuditFault::reused_noise && step > 0;
  if (!silent && !again) return;
  const privacy::Noise noise(key_);
  const double per_sum = learning_rate(event_.made) / event_.made.divisor;
  for (const auto& shard : job_->runtime().shards())
    for (const auto& run : shard.runs) {
      const auto drawn = [&](int64_t of) {
        auto out = at::zeros({run.size}, at::kDouble);
        noise.add(out, event_.made.noise_deviation(), static_cast<uint64_t>(of), run.weight->id(), run.begin);
        return out;
      };
      const auto wrong = again ? drawn(step) - drawn(0) : drawn(step);
      shard.master.narrow(0, run.at, run.size).add_(wrong, per_sum);
    }
  job_->runtime().updated();
}

}  // namespace shade::proof
