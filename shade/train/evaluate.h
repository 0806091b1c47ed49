// The loss of records that are not trained on.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shade/base/json.h"
#include "shade/data/dataset.h"
#include "shade/models/model.h"
#include "shade/shard/runtime.h"

namespace shade::train {

struct Evaluation {
  double loss = 0;                   // mean over tokens of a language model, otherwise over records
  std::optional<double> perplexity;  // of a language model: exp(loss)
  std::optional<double> accuracy;    // of classes
  std::optional<double> majority;    // what always naming the most frequent class would reach
  int64_t records = 0;

  Json json(const std::string& what) const;  // {"eval_loss": ..., ...} if that is "eval"
};

// Collective: every rank takes its part. No gradients, nothing is changed. `stop` is asked before every micro-batch, on
// every rank or on none; true on any of them ends the evaluation without a result.
std::optional<Evaluation> evaluate(models::Model& model, shard::Runtime& runtime, const data::Dataset& dataset,
                                   const std::vector<int64_t>& records, int64_t micro_batch,
                                   const std::function<bool()>& stop = {});

}  // namespace shade::train
