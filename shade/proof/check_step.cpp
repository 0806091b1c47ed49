#include "shade/proof/check_step.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/data/dataset.h"
#include "shade/models/model.h"
#include "shade/proof/noise_figures.h"
#include "shade/proof/reference.h"
#include "shade/train/budget/budget.h"
#include "shade/train/step/job.h"

namespace shade::proof {
namespace {

// Records for checking how a step's batch is dealt: texts of every length, of users that have one to four each.

// Made by a model that learns from texts, which must outlive it.
class CheckedData final : public data::Dataset {
 public:
  static constexpr int64_t kMostOfUser = 4;

  CheckedData(const models::Model& model, int64_t records, int64_t max_length, uint64_t seed)
      : model_(&model), records_(records), max_length_(max_length), seed_(seed) {}

  int64_t size() const override { return records_; }
  nn::Batch batch(std::span<const int64_t> records) const override { return padded_batch(records, max_length_); }
  std::string describe() const override { return text(records_, " records of a check"); }
  std::string fingerprint() const override { return text("check ", records_, " ", max_length_, " ", seed_); }
  uint64_t content_of(int64_t record) const override { return seed_of(record); }
  std::optional<data::UserId> user_of(int64_t record) const override;
  int64_t max_length() const override { return max_length_; }
  int64_t length_of(int64_t record) const override { return 1 + record * 7 % max_length_; }
  nn::Batch padded_batch(std::span<const int64_t> records, int64_t length) const override;

 private:
  uint64_t seed_of(int64_t record) const { return seed_ * 100000 + static_cast<uint64_t>(record); }

  const models::Model* model_;
  int64_t records_, max_length_;
  uint64_t seed_;
};

// Ten records in a row are of four users: 1, 2, 3 and 4 each.
std::optional<data::UserId> CheckedData::user_of(int64_t record) const {
  static constexpr int64_t kUsers[] = {0, 1, 1, 2, 2, 2, 3, 3, 3, 3};
  return data::user_id(text("user ", record / 10 * 4 + kUsers[record % 10]));
}

nn::Batch CheckedData::padded_batch(std::span<const int64_t> records, int64_t length) const {
  const auto full = [&](int64_t samples, uint64_t seed) {
    return model_->synthetic({.samples = samples, .seq_length = max_length_}, seed, at::kFloat);
  };
  const auto none = full(0, seed_);
  std::vector<at::Tensor> ids{none.ids_BT.narrow(1, 0, length)}, masks{ids.front()}, labels{none.labels};
  for (const auto record : records) {
    SHADE_REQUIRE(length_of(record) <= length, "record ", record, " has ", length_of(record), " positions, not ",
                  length);
    const auto made = full(1, seed_of(record));
    masks.push_back((at::arange(length) < length_of(record)).to(at::kLong).unsqueeze(0));
    ids.push_back(made.ids_BT.narrow(1, 0, length) * masks.back());
    labels.push_back(made.labels);
  }
  nn::Batch out;
  out.ids_BT = at::cat(ids);
  out.mask_BT = at::cat(masks);
  out.labels = at::cat(labels);
  return out;
}

constexpr uint64_t kStepSeed = 12;
constexpr int64_t kRecords = 40, kLength = 40;  // lengths are padded to 16, 32 and 40
constexpr double kRate = 0.4;
// Small, so that the sum is not lost in the noise; the grid that the sum is rounded to is finer then, too.
constexpr double kStepSigma = 0.05;
// Of the noised sum. An element next to the middle between two points of the noise's grid may be rounded to either.
constexpr double kMark = 1e-4;
constexpr double kDivisor = 5;  // public, and no number of samples that could be counted

// The units that a step draws, each as its records.
std::vector<std::vector<int64_t>> drawn_units(const privacy::PrivacyEvent& event, const train::HeldOut& split) {
  const auto sampler = train::make_sampler(event, split.training(event.unit), 0, privacy::seeded_key(kStepSeed));
  std::vector<std::vector<int64_t>> out;
  for (const auto unit : sampler->draw(0)) {
    if (split.users() == nullptr) {
      out.push_back({split.training_record(unit)});
    } else {
      const auto records = split.users()->records_of(unit);
      out.emplace_back(records.begin(), records.end());
    }
  }
  return out;
}

std::vector<SampleGradient> gradients_of(Reference& reference, const data::Dataset& data,
                                         const std::vector<std::vector<int64_t>>& units) {
  std::vector<SampleGradient> out;
  for (const auto& unit : units) {
    std::vector<nn::Batch> records;
    for (const auto record : unit) records.push_back(data.padded_batch({&record, 1}, data.length_of(record)));
    out.push_back(reference.gradient(records));
  }
  return out;
}

}  // namespace

VerifyRow check_step(comm::World& world, const StepCheck& check, shard::Strategy strategy,
                     const shard::Groups& groups) {
  const auto model = check.make_model();
  const CheckedData data(*model, kRecords, kLength, check.seed);
  const auto split =
      check.users ? train::HeldOut::by_user(data, 0) : train::HeldOut::by_position(data.size(), /*wanted=*/0);
  privacy::PrivacyEvent event{.mechanism = {.sample_rate = kRate, .noise_multiplier = kStepSigma},
                              .divisor = kDivisor,
                              .unit = check.users ? privacy::PrivacyUnit::user : privacy::PrivacyUnit::record,
                              .steps = 1,
                              .delta = 1e-5};
  const auto units = drawn_units(event, split);
  Reference reference(check.make_model(), check.dtype, check.seed);
  const auto samples = gradients_of(reference, data, units);
  const ClipRule rule{.options = check.clip, .clip_norm = middle_norm(samples)};
  event.clip_norm = rule.clip_norm;
  const auto expected = expected_sum(model->parameters(), samples, rule, /*ranks=*/1);

  optim::OptimConfig plain{.optimizer = optim::Algorithm::sgd, .lr = 1, .weight_decay = 0};
  shard::ShardConfig sharding;
  sharding.shard = strategy;
  sharding.segment = KiB(16);
  train::Job job(world, {.model = model.get(),
                         .data = &data,
                         .split = split,
                         .step = {.privacy = event, .method = check.method.make, .noise_seed = kStepSeed},
                         .optimizer = plain,
                         .shard = sharding,
                         .dtype = check.dtype,
                         .micro_batch = 2,
                         .max_records_per_user = check.users ? CheckedData::kMostOfUser : 0,
                         .weights =
                             [&](shard::Runtime& weights) {
                               weights.fill([&](const nn::Weight& weight, int64_t begin, at::Tensor out) {
                                 out.copy_(checked_value(weight, check.seed).view(-1).narrow(0, begin, out.numel()));
                               });
                             },
                         .groups = groups});
  const auto record = job.step();

  VerifyRow row{.method = check.method.name,
                .strategy = to_string(strategy),
                .dtype = to_string(check.dtype),
                .model = check.label,
                .style = to_string(check.clip.style),
                .reference = to_string(reference.source()),
                .ranks = world.size()};
  const double deviation = rule.noise_deviation(kStepSigma);
  const privacy::Noise noise(privacy::seeded_key(kStepSeed));
  NoiseFigures figures(deviation);
  double gap = 0, size = 0;
  for (const auto& weight : model->parameters().weights()) {
    if (!weight.trainable()) continue;
    const auto before = checked_value(weight, check.seed).to(at::kDouble);
    const auto found = (before - job.runtime().whole(weight).cpu().to(at::kDouble)) * kDivisor;
    const auto& sum = expected.sum.at(weight.id());
    const auto wanted = sum.clone();
    noise.add(wanted.view(-1), deviation, 0, weight.id(), 0);
    figures.add(found - sum);
    gap += (found - wanted).square().sum().item<double>();
    size += wanted.to(at::kDouble).square().sum().item<double>();
  }
  // Every rank looks at its own copy of the weights.
  const auto mine = at::tensor({std::isfinite(gap) ? std::sqrt(gap / size) : INFINITY,
                                record && record->samples.samples == std::ssize(units) ? 0.0 : INFINITY,
                                figures.ratio(), figures.plausible() ? 0.0 : 1.0},
                               at::kDouble);
  auto all = at::empty({world.size() * mine.numel()}, at::kDouble);
  groups.control.all_gather(all, mine, {.label = "differences"}).wait();
  const auto worst = std::get<0>(all.view({world.size(), -1}).max(0));
  row.max_rel_grad = worst[0].item<double>();
  row.max_rel_norm = worst[1].item<double>();
  row.noise_ratio = worst[2].item<double>();
  row.noise_equal = row.max_rel_grad <= std::max(kMark, tolerance(check.dtype));
  row.pass =
      row.max_rel_norm == 0 && row.noise_equal && (worst[3].item<double>() == 0 || check.dtype == nn::DType::bf16);
  return row;
}

}  // namespace shade::proof
