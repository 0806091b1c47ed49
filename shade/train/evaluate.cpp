#include "shade/train/evaluate.h"

#include <ATen/ATen.h>

#include <cmath>

#include "shade/base/memory_scope.h"
#include "shade/base/span.h"
#include "shade/nn/losses.h"
#include "shade/train/deal.h"

namespace shade::train {

Json Evaluation::json(const std::string& what) const {
  Json out{{what + "_loss", loss}, {what + "_records", records}};
  if (perplexity) out[what + "_perplexity"] = *perplexity;
  if (accuracy) out[what + "_accuracy"] = *accuracy;
  if (majority) out[what + "_majority"] = *majority;
  return out;
}

namespace {

// Some rank wants to stop. Without anybody to ask, nothing is exchanged.
bool stops(const comm::Group& group, const std::function<bool()>& stop) {
  if (!stop) return false;
  const auto wishes = at::full({1}, stop() ? 1.0 : 0.0, at::kDouble);
  group.all_reduce(wishes, {.label = "stop"}).wait();
  return wishes.item<double>() > 0;
}

// The sum of the losses of a micro-batch and what they are a mean of: tokens, or records. On its device.
struct LossSum {
  at::Tensor sum_and_count;  // [2] fp64
  bool of_tokens = false;
};
LossSum summed(const models::Model& model, const nn::Batch& batch, const at::Tensor& losses_B) {
  const auto wide_B = losses_B.to(at::kDouble);
  const auto tokens_B = model.loss_tokens(batch);
  if (!tokens_B.defined()) return {at::stack({wide_B.sum(), at::ones_like(wide_B).sum()})};
  const auto sums_B = model.sums_tokens() ? wide_B : wide_B * tokens_B;
  return {at::stack({sums_B.sum(), tokens_B.sum(at::kDouble)}), /*of_tokens=*/true};
}

}  // namespace

std::optional<Evaluation> evaluate(models::Model& model, shard::Runtime& runtime, const data::Dataset& dataset,
                                   const std::vector<int64_t>& records, int64_t micro_batch,
                                   const std::function<bool()>& stop) {
  const Span span("evaluate");
  const MemoryScope scope(MemoryKind::activations);
  const at::NoGradGuard no_graph;
  const auto& control = runtime.groups().control;
  double count = 0;
  bool of_tokens = false;
  const auto wide = at::TensorOptions(runtime.device()).dtype(at::kDouble);
  const auto loss = at::zeros({2}, wide), right = at::zeros({1}, wide);  // the sum and its count; right classes
  auto seen = at::zeros({0}, wide);                                      // records of each class
  for (const auto& mine : deal(records, control.size(), control.rank(), micro_batch)) {
    if (stops(control, stop)) return std::nullopt;
    const auto batch = dataset.batch(mine).to(runtime.device());
    const bool has_classes = batch.ids_BT.defined() && batch.labels.dim() == 1;
    runtime.begin_forward();
    const auto logits_BC = has_classes ? model.outputs(batch) : at::Tensor();
    const auto losses = has_classes ? nn::class_losses(logits_BC, batch.labels) : model.losses(batch);
    const auto part = summed(model, batch, losses);
    loss.add_(part.sum_and_count);
    of_tokens = part.of_tokens;
    count += static_cast<double>(mine.size());
    if (!has_classes) continue;
    right.add_(logits_BC.argmax(-1).eq(batch.labels).sum());
    if (seen.numel() == 0) seen = at::zeros({logits_BC.size(-1)}, wide);
    seen += at::bincount(batch.labels, {}, logits_BC.size(-1));
  }
  const auto sums = at::cat({at::cat({loss, right, seen}).cpu(), at::full({1}, count, at::kDouble)});
  control.all_reduce(sums, {.label = "evaluation"}).wait();
  const auto sum = [&](int64_t i) { return sums[i].item<double>(); };
  Evaluation out{.loss = sum(0) / std::max(1.0, sum(1)), .records = static_cast<int64_t>(sum(-1))};
  if (of_tokens) out.perplexity = std::exp(out.loss);
  seen = sums.slice(0, 3, -1);
  if (const auto classified = seen.sum().item<double>(); classified > 0) {
    out.accuracy = sum(2) / classified;
    out.majority = seen.max().item<double>() / classified;
  }
  return out;
}

}  // namespace shade::train
