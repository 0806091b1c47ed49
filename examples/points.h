// A data set for the examples: points of a function with some noise, kept in memory. own_data.cpp shows how one reads a
// file.
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "shade/data/dataset.h"

class Points : public shade::data::Dataset {
 public:
  static constexpr int64_t kInputs = 4;

  Points() {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(/*seed=*/7);
    x_ = at::rand({kSize, kInputs}, generator) * 2 - 1;
    y_ = at::sin(1.2 * x_.sum(1, /*keepdim=*/true)) + 0.05 * at::randn({kSize, 1}, generator);
  }
  int64_t size() const override { return kSize; }
  shade::nn::Batch batch(std::span<const int64_t> records) const override {
    const auto rows = at::tensor(at::ArrayRef<int64_t>(records.data(), records.size()));
    shade::nn::Batch batch;
    batch.x_BD = x_.index_select(0, rows);
    batch.y_BD = y_.index_select(0, rows);
    return batch;
  }
  std::string describe() const override { return "4000 points of a sine"; }
  // They follow from the seed: its number is all that tells them from others.
  std::string fingerprint() const override { return "points of a sine, 4000, seed 7"; }
  uint64_t content_of(int64_t record) const override { return static_cast<uint64_t>(record) * 0x9e3779b97f4a7c15u; }

 private:
  static constexpr int64_t kSize = 4000;
  at::Tensor x_, y_;
};
