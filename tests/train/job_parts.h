// What the tests of jobs share: a data set and a model of another program, and a job made of them.
#pragma once

#include <ATen/ATen.h>

#include "shade/models/linear_stack.h"
#include "shade/train/step/job.h"

namespace shade::train {

inline constexpr int64_t kRecords = 40, kWidth = 4;

// y = 2 x, from memory.
class Doubles final : public data::Dataset {
 public:
  explicit Doubles(std::string fingerprint = "x in sines, y twice that") : fingerprint_(std::move(fingerprint)) {}
  int64_t size() const override { return kRecords; }
  nn::Batch batch(std::span<const int64_t> records) const override {
    nn::Batch out;
    const auto numbers = at::tensor(std::vector<int64_t>(records.begin(), records.end()), at::kLong);
    out.x_BD = (numbers.view({-1, 1}) * kWidth + at::arange(kWidth)).to(at::kFloat).sin();
    out.y_BD = 2 * out.x_BD;
    return out;
  }
  std::string describe() const override { return "40 pairs"; }
  std::string fingerprint() const override { return fingerprint_; }
  uint64_t content_of(int64_t record) const override { return static_cast<uint64_t>(record + 1) * 0x9e3779b97f4a7c15; }
  data::SampleUnit unit() const override { return is; }

  data::SampleUnit is = data::SampleUnit::record;

 private:
  std::string fingerprint_;
};

inline privacy::PrivacyEvent event() {
  return {.mechanism = {.sample_rate = 0.2, .noise_multiplier = 1},
          .clip_norm = 0.5,
          .divisor = 8,
          .steps = 6,
          .delta = 1e-5};
}

struct Parts {
  models::LinearStack model{{.width = kWidth, .depth = 2}, {}};
  Doubles data;
  JobOptions options() {
    JobOptions out{.model = &model, .data = &data, .batch_size = 8, .steps = 6, .seed = 3};
    out.optimizer.optimizer = optim::Algorithm::sgd;
    out.optimizer.lr = 0.1;
    return out;
  }
  JobOptions private_options() {
    auto out = options();
    out.step.privacy = event();
    out.step.noise_seed = 7;
    return out;
  }
  std::vector<at::Tensor> weights(Job& job) {
    std::vector<at::Tensor> out;
    for (const auto& weight : model.parameters().weights()) out.push_back(job.runtime().whole(weight));
    return out;
  }
};

inline std::vector<at::Tensor> trained(comm::World& world, const std::function<void(JobOptions&)>& change) {
  Parts parts;
  auto options = parts.private_options();
  change(options);
  Job job(world, options);
  while (job.step()) {
  }
  return parts.weights(job);
}

}  // namespace shade::train
