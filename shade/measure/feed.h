// Where the batches of a measured step come from: made up once, or read from a folder step by step.
#pragma once

#include <memory>

#include "shade/comm/job/environment.h"
#include "shade/data/dataset.h"
#include "shade/measure/bench.h"

namespace shade::measure {

// Not thread-safe. Records of a folder come in turn: every rank other ones, from the beginning again at the end.
class Feed {
 public:
  // Throws UsageError if the data doesn't fit the model: ids beyond its vocabulary, more classes than it has.
  Feed(const Experiment& experiment, const models::Model& model, const comm::Place& place, c10::Device device);

  // The micro-batches of the next step. A span `data`: what a training step waits for.
  std::vector<nn::Batch> next();
  std::string describe() const;
  int64_t records() const { return dataset_ ? dataset_->size() : 0; }  // 0: made up

 private:
  nn::Batch numbered(nn::Batch batch, int64_t micro_step) const;

  int64_t batch_size_, micro_steps_, ranks_, rank_, step_ = 0;
  c10::Device device_;
  std::unique_ptr<data::Dataset> dataset_;  // null: made up
  std::vector<nn::Batch> made_up_;
};

}  // namespace shade::measure
