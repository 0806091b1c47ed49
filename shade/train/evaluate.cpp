#include "shade/train/evaluate.h"

#include <ATen/ATen.h>

#include "shade/base/memory_scope.h"
#include "shade/base/span.h"
#include "shade/train/deal.h"

namespace shade::train {

Evaluation evaluate(models::Model& model, shard::Runtime& runtime, const data::Dataset& dataset, const HeldOut& split,
                    int64_t micro_batch) {
  const Span span("evaluate");
  const MemoryScope scope(MemoryKind::activations);
  const at::NoGradGuard no_graph;
  std::vector<int64_t> records;
  for (int64_t i = 0; i < split.evaluation(); ++i) records.push_back(split.evaluation_record(i));
  const auto& control = runtime.groups().control;
  double loss = 0, right = 0, classified = 0, count = 0;
  for (const auto& mine : deal(records, control.size(), control.rank(), micro_batch)) {
    const auto batch = dataset.batch(mine);
    runtime.begin_forward();
    loss += model.losses(batch).sum(at::kDouble).item<double>();
    count += static_cast<double>(mine.size());
    const bool classes = batch.ids_BT.defined() && batch.labels.dim() == 1;
    if (!classes) continue;
    runtime.begin_forward();
    right += model.outputs(batch).argmax(-1).eq(batch.labels).sum().item<double>();
    classified += static_cast<double>(mine.size());
  }
  const auto sums = at::tensor({loss, right, classified, count}, at::kDouble);
  control.all_reduce(sums, {.label = "evaluation"}).wait();
  const auto sum = [&](int64_t i) { return sums[i].item<double>(); };
  Evaluation out{.loss = sum(0) / std::max(1.0, sum(3)), .records = static_cast<int64_t>(sum(3))};
  if (sum(2) > 0) out.accuracy = sum(1) / sum(2);
  return out;
}

}  // namespace shade::train
