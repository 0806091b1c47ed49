// Records for checking how a step's batch is dealt: texts of every length, of users that have one to four each.
#pragma once

#include "shade/data/dataset.h"
#include "shade/models/model.h"

namespace shade::proof {

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

}  // namespace shade::proof
