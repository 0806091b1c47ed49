#include "shade/train/step.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "shade/base/error.h"
#include "shade/base/memory_scope.h"
#include "shade/base/span.h"
#include "shade/optim/gradient_norm.h"

namespace shade::train {

Step::Step(models::Model& model, shard::Runtime& runtime, optim::Optimizer& optimizer, optim::Schedule schedule,
           StepOptions options)
    : model_(&model),
      runtime_(&runtime),
      optimizer_(&optimizer),
      schedule_(schedule),
      options_(options),
      tap_(runtime) {
  model.parameters().wiring.tap = &tap_;
}

Step::~Step() { model_->parameters().wiring.tap = nullptr; }

std::vector<optim::Slot> slots_of(std::span<const shard::LocalShard> shards) {
  std::vector<optim::Slot> slots;
  for (const auto& shard : shards)
    slots.push_back({.name = shard.name, .master = shard.master, .gradient = shard.gradient, .offset = shard.offset});
  return slots;
}

double Step::gradients(std::span<const nn::Batch> micro_batches) {
  runtime_->begin_step(static_cast<int64_t>(micro_batches.size()));
  at::Tensor sum;
  for (const auto& batch : micro_batches) {
    at::Tensor losses_B;
    {
      const Span span("forward");
      const MemoryScope scope(MemoryKind::activations);
      runtime_->begin_forward();
      losses_B = model_->losses(batch);
    }
    {
      const Span span("backward");
      const MemoryScope scope(MemoryKind::temporary);
      runtime_->begin_backward();
      torch::autograd::backward({losses_B.sum()}, {});
    }
    runtime_->end_micro_step();
    const auto loss = losses_B.detach().sum(at::kDouble);
    sum = sum.defined() ? sum + loss : loss;
  }
  {
    const Span span("reduce");
    runtime_->wait();
  }
  return sum.is_meta() ? 0 : sum.item<double>();
}

StepRecord Step::run(std::span<const nn::Batch> micro_batches, int64_t samples) {
  SHADE_REQUIRE(!micro_batches.empty() && samples > 0,
                "a step needs at least one micro-batch, and samples on some rank");
  StepRecord record{.learning_rate = schedule_.learning_rate(optimizer_->steps())};
  const double local = gradients(micro_batches);
  const auto shards = runtime_->shards();
  const auto slots = slots_of(shards);
  double scale = 1 / static_cast<double>(samples);
  // One small sum for everybody: losses, and squares of the elements that this rank owns alone.
  const auto copies = static_cast<double>(runtime_->policy().replicate);
  auto sums = at::zeros({2}, at::kDouble);
  sums[0] = local;
  if (options_.grad_clip > 0) sums[1] = optim::squared_norm(slots) / copies;
  runtime_->groups().control.all_reduce(sums, {.label = "loss and norm"}).wait();
  record.loss = sums[0].item<double>() * scale;
  if (options_.grad_clip > 0) {
    record.gradient_norm = std::sqrt(sums[1].item<double>()) * scale;
    scale *= optim::clip_factor(record.gradient_norm, options_.grad_clip);
  }
  {
    const Span span("optimizer");
    const MemoryScope scope(MemoryKind::optimizer);
    optimizer_->step(slots, record.learning_rate, scale);
  }
  runtime_->updated();
  return record;
}

}  // namespace shade::train
