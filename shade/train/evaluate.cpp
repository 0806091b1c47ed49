#include "shade/train/evaluate.h"

#include <ATen/ATen.h>

#include "shade/base/memory_scope.h"
#include "shade/base/span.h"
#include "shade/train/deal.h"

namespace shade::train {

namespace {

// Some rank wants to stop. Without anybody to ask, nothing is exchanged.
bool stops(const comm::Group& group, const std::function<bool()>& stop) {
  if (!stop) return false;
  const auto wishes = at::full({1}, stop() ? 1.0 : 0.0, at::kDouble);
  group.all_reduce(wishes, {.label = "stop"}).wait();
  return wishes.item<double>() > 0;
}

}  // namespace

std::optional<Evaluation> evaluate(models::Model& model, shard::Runtime& runtime, const data::Dataset& dataset,
                                   const std::vector<int64_t>& records, const MicroShapes& shapes,
                                   const std::function<bool()>& stop) {
  const Span span("evaluate");
  const MemoryScope scope(MemoryKind::activations);
  const auto& control = runtime.groups().control;
  Tally tally(runtime.device());
  for (const auto& [mine, shape] : deal(dataset, records, shapes, {control.size(), control.rank()})) {
    if (stops(control, stop)) return std::nullopt;
    const auto batch = shapes.vary() ? dataset.padded_batch(mine, shape.length) : dataset.batch(mine);
    runtime.begin_forward();
    tally.add(model, batch.to(runtime.device()));
  }
  const auto sums = tally.sums();
  control.all_reduce(sums, {.label = "evaluation"}).wait();
  return Tally::evaluation(sums);
}

}  // namespace shade::train
