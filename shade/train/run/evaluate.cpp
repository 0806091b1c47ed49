#include "shade/train/run/evaluate.h"

#include <ATen/ATen.h>

#include <cmath>

#include "shade/base/memory_scope.h"
#include "shade/base/span.h"
#include "shade/nn/losses.h"
#include "shade/train/feed/loader.h"

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
  const Span span(SpanName::evaluate);
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

namespace {

// losses, what they are a mean of (tokens or records), batches whose losses are of tokens, records
constexpr int64_t kTotals = 4;

// The sum of a micro-batch's losses, what they are a mean of, and 1 if that is tokens: on its device.
at::Tensor counted_sums(const models::Model& model, const nn::Batch& batch, const at::Tensor& losses_B) {
  const auto wide_B = losses_B.to(at::kDouble);
  const auto tokens_B = model.loss_tokens(batch);
  const auto one = at::ones({}, wide_B.options());
  if (!tokens_B.defined()) return at::stack({wide_B.sum(), at::ones_like(wide_B).sum(), at::zeros_like(one)});
  const auto sums_B = model.sums_tokens() ? wide_B : wide_B * tokens_B;
  return at::stack({sums_B.sum(), tokens_B.sum(at::kDouble), one});
}

}  // namespace

Json Evaluation::json(const std::string& what) const {
  Json out{{what + "_loss", loss}, {what + "_records", records}};
  if (perplexity) out[what + "_perplexity"] = *perplexity;
  if (accuracy) out[what + "_accuracy"] = *accuracy;
  if (f1) out[what + "_f1"] = *f1;
  if (majority) out[what + "_majority"] = *majority;
  return out;
}

Tally::Tally(at::Device device)
    : totals_(at::zeros({kTotals}, at::TensorOptions(device).dtype(at::kDouble))),
      classes_(at::zeros({3, 0}, totals_.options())) {}

Tally::Given Tally::add(models::Model& model, const nn::Batch& batch) {
  const at::NoGradGuard no_graph;
  const bool has_classes = batch.ids_BT.defined() && batch.labels.dim() == 1;
  const auto logits_BC = has_classes ? model.outputs(batch) : at::Tensor();
  const auto losses_B = has_classes ? nn::class_losses(logits_BC, batch.labels) : model.losses(batch);
  totals_.narrow(0, 0, 3).add_(counted_sums(model, batch, losses_B));
  totals_[3] += batch.samples();
  if (!has_classes) return {losses_B, {}};
  const auto classes = logits_BC.size(-1);
  const auto predicted_B = logits_BC.argmax(-1);
  const auto count = [&](const at::Tensor& numbers) { return at::bincount(numbers, {}, classes); };
  if (classes_.size(1) == 0) classes_ = at::zeros({3, classes}, totals_.options());
  classes_ += at::stack(
      {count(batch.labels), count(batch.labels.masked_select(predicted_B.eq(batch.labels))), count(predicted_B)});
  return {losses_B, logits_BC};
}

at::Tensor Tally::sums() const { return at::cat({totals_, classes_.flatten()}).cpu(); }

Evaluation Tally::evaluation(const at::Tensor& sums) {
  const auto total = [&](int64_t i) { return sums[i].item<double>(); };
  Evaluation out{.loss = total(0) / std::max(1.0, total(1)), .records = static_cast<int64_t>(total(3))};
  if (total(2) > 0) out.perplexity = std::exp(out.loss);
  const auto classes = sums.slice(0, kTotals).view({3, -1});
  const auto seen = classes[0], right = classes[1], either = classes[0] + classes[2];
  const auto classified = seen.sum().item<double>();
  if (classified == 0) return out;
  out.accuracy = right.sum().item<double>() / classified;
  out.majority = seen.max().item<double>() / classified;
  out.f1 = (2 * right / either).masked_select(either > 0).mean().item<double>();
  return out;
}

}  // namespace shade::train
