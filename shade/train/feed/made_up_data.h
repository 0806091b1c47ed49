// Synthetic records that a model makes for itself: shapes for trying a recipe, nothing to learn but their own bits.
#pragma once

#include "shade/data/dataset.h"
#include "shade/models/model.h"

namespace shade::train {

class MadeUpData final : public data::Dataset {
 public:
  // The model must outlive it; numbers are of the type it computes in. Record r is the same whatever batch it is in.
  MadeUpData(const models::Model& model, int64_t records, int64_t seq_length, uint64_t seed,
             at::ScalarType type = at::kFloat)
      : model_(&model), records_(records), seq_length_(seq_length), seed_(seed), type_(type) {}

  int64_t size() const override { return records_; }
  nn::Batch batch(std::span<const int64_t> records) const override { return made(records, /*training=*/false); }
  nn::Batch batch_at(std::span<const int64_t> records, uint64_t /*draw*/) const override {
    return made(records, /*training=*/true);
  }
  std::string describe() const override { return text(records_, " synthetic records"); }
  std::string fingerprint() const override;
  uint64_t content_of(int64_t record) const override;  // of its seed: its number is all that makes it

 private:
  nn::Batch made(std::span<const int64_t> records, bool training) const;
  uint64_t seed_of(int64_t record) const { return seed_ + 0x9e3779b97f4a7c15u * static_cast<uint64_t>(record + 1); }

  const models::Model* model_;
  int64_t records_, seq_length_;
  uint64_t seed_;
  at::ScalarType type_;
};

}  // namespace shade::train
