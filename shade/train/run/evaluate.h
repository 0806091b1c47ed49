// The loss of records that are not trained on.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shade/base/json.h"
#include "shade/data/dataset.h"
#include "shade/models/model.h"
#include "shade/shard/runtime.h"
#include "shade/train/feed/micro_shapes.h"

namespace shade::train {

// What an evaluation sums up, micro-batch by micro-batch: sums of parts of the records add up to those of all.
struct Evaluation {
  double loss = 0;                   // mean over tokens of a language model, otherwise over records
  std::optional<double> perplexity;  // of a language model: exp(loss)
  std::optional<double> accuracy;    // of classes
  std::optional<double> f1;          // of classes: mean over those that occur or are predicted (macro)
  std::optional<double> majority;    // what always naming the most frequent class would reach
  int64_t records = 0;

  Json json(const std::string& what) const;  // {"eval_loss": ..., ...} if that is "eval"
};

class Tally {
 public:
  explicit Tally(at::Device device);

  // What a model gave for a batch.
  struct Given {
    at::Tensor losses_B;   // as Model::losses() returns them
    at::Tensor logits_BC;  // of classes; otherwise undefined
  };
  Given add(models::Model& model, const nn::Batch& batch);  // on the device; a forward pass without a graph
  at::Tensor sums() const;                                  // fp64, on the host; what makes an evaluation
  static Evaluation evaluation(const at::Tensor& sums);

 private:
  at::Tensor totals_;   // kTotals numbers
  at::Tensor classes_;  // [3, C]: records of each class, of these classified right, predictions of it
};

// Collective: every rank takes its part, in micro-batches of these shapes. No gradients, nothing is changed. `stop` is
// asked before every micro-batch, on every rank or on none; true on any of them ends the evaluation without a result.
std::optional<Evaluation> evaluate(models::Model& model, shard::Runtime& runtime, const data::Dataset& dataset,
                                   const std::vector<int64_t>& records, const MicroShapes& shapes,
                                   const std::function<bool()>& stop = {});

}  // namespace shade::train
