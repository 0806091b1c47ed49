// Synthetic records for audits: numbered units, some of them canaries. A unit is a record, or a user whose records are
// all the same, which is the user that moves a sum the most.
#pragma once

#include <vector>

#include "shade/data/dataset.h"
#include "shade/train/made_up_data.h"

namespace shade::proof {

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

}  // namespace shade::proof
