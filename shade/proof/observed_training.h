// A short training by the program's own job, with an observer beside it.
//
// The training is a train::Job as `shade train` makes it: Poisson batches by a key from the operating system, clipping,
// noise, sharding, the type of computation and the adapters that are asked for. Its optimizer is plain SGD, which shows
// every noisy sum as a difference of weights; any other optimizer works on these sums. The observer sees the weights
// after every step, knows the records, each record's clipped gradient, and which of the other records were drawn. What
// he doesn't know is the noise, and whether a canary is in the data and in a batch.
//
// Faults are made here, around the job, which has no such switch: by an event other than the claimed one, or by
// changing the weights after a step, for which the noise is computed again from the key.
#pragma once

#include <vector>

#include "shade/data/dataset.h"
#include "shade/proof/audit.h"
#include "shade/train/feed/made_up_data.h"
#include "shade/train/step/job.h"

namespace shade::proof {

// Synthetic records for audits: numbered units, some of them canaries. A unit is a record, or a user whose records are
// all the same, which is the user that moves a sum the most.
class AuditedRecords final : public data::Dataset {
 public:
  // The model must outlive it. Unit u is the same in whatever data set it is.
  AuditedRecords(const train::MadeUpData& all, std::vector<int64_t> units, int64_t records_per_unit)
      : all_(all), units_(std::move(units)), each_(records_per_unit) {}

  int64_t unit_of(int64_t record) const { return units_.at(static_cast<size_t>(record / each_)); }

  int64_t size() const override { return std::ssize(units_) * each_; }
  nn::Batch batch(std::span<const int64_t> records) const override { return all_.batch(units_of(records)); }
  nn::Batch batch_at(std::span<const int64_t> records, uint64_t /*draw*/) const override { return batch(records); }
  std::string describe() const override { return text(size(), " records of an audit"); }
  std::string fingerprint() const override {
    auto out = text(all_.fingerprint(), ' ', each_);
    for (const auto unit : units_) out += text(' ', unit);
    return out;
  }
  uint64_t content_of(int64_t record) const override { return all_.content_of(unit_of(record)); }
  std::optional<data::UserId> user_of(int64_t record) const override {
    return data::user_id(text("unit ", unit_of(record)));
  }

 private:
  std::vector<int64_t> units_of(std::span<const int64_t> records) const {
    std::vector<int64_t> out;
    for (const auto record : records) out.push_back(unit_of(record));
    return out;
  }

  train::MadeUpData all_;
  std::vector<int64_t> units_;
  int64_t each_;
};

using Parts = std::vector<at::Tensor>;  // one for each shard of this rank
double dot(const Parts& a, const Parts& b);

// Clipped sums of this rank's micro-batches and those of all others; collective. Until updated() is called, the job's
// shards hold them too.
Parts gradient_sums(train::Job& job, std::span<const nn::Batch> batches);

// What is claimed of a training, and what is made in its place by a fault.
struct AuditedEvent {
  AuditedEvent(const Audit& what, int64_t units);  // so many units besides canaries

  privacy::PrivacyEvent claimed, made;
  int64_t records_per_unit = 1;
  int64_t rows = 1;  // records that are clipped as one

  std::vector<int64_t> samples_of(int64_t unit) const {  // as a step would have the whole unit
    return std::vector<int64_t>(static_cast<size_t>(records_per_unit / rows), unit);
  }
};

// Clipped sums and losses of any units, at the weights of a training.
class Observer {
 public:
  Observer(comm::World& world, const Audit& what, const AuditedEvent& event, const shard::Groups& groups,
           int64_t micro_batch);

  void look_at(const Parts& weights);              // these of a training
  Parts sum(const std::vector<int64_t>& samples);  // collective; each is a unit's number, and may come twice
  std::vector<double> losses(std::span<const int64_t> units);  // collective, the same on every rank
  const models::Model& model() const { return *model_; }

 private:
  AuditedEvent event_;
  std::unique_ptr<models::Model> model_;
  train::MadeUpData records_;
  train::Job job_;
  Parts masters_;
  int64_t micro_batch_;
};

class ObservedTraining {
 public:
  ObservedTraining(comm::World& world, const Audit& what, const AuditedEvent& event, const shard::Groups& groups,
                   std::vector<int64_t> units, const privacy::NoiseKey& key);

  // The units that the next step draws; with records that are drawn one by one, a unit may be there twice.
  std::vector<int64_t> drawn() const;
  Parts step();  // the noisy sum that it released
  const Parts& weights() const { return masters_; }

 private:
  void plant(int64_t step);

  AuditFault fault_;
  AuditedEvent event_;
  privacy::NoiseKey key_;
  int rank_;
  std::unique_ptr<models::Model> model_;
  AuditedRecords records_;
  train::HeldOut split_;
  std::unique_ptr<train::Job> job_;
  Parts masters_;
};

// One number of each rank's shards, summed over them; copies of a shard count once.
at::Tensor over_ranks(at::Tensor partial, const shard::Groups& groups);

}  // namespace shade::proof
