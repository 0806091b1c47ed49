// What an evaluation sums up, micro-batch by micro-batch: sums of parts of the records add up to those of all.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "shade/base/json.h"
#include "shade/models/model.h"

namespace shade::train {

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

  void add(models::Model& model, const nn::Batch& batch);  // on the device; a forward pass without a graph
  at::Tensor sums() const;                                 // fp64, on the host; what makes an evaluation
  static Evaluation evaluation(const at::Tensor& sums);

 private:
  at::Tensor totals_;   // kTotals numbers
  at::Tensor classes_;  // [3, C]: records of each class, of these classified right, predictions of it
};

}  // namespace shade::train
