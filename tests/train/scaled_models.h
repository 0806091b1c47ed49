// Small models of every family in which the loss of each sample can be scaled on its own, and their clipped sums.
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <limits>
#include <string>

#include "shade/models/decoder.h"
#include "shade/models/dit.h"
#include "shade/models/linear_stack.h"
#include "shade/optim/config.h"
#include "shade/train/step/step.h"

namespace shade::test {

constexpr double kInf = std::numeric_limits<double>::infinity();

inline const auto kMethods = catalog::private_methods();

// The factor of each sample's loss travels in a field that the model doesn't read.
template <class Base, at::Tensor nn::Batch::* factors>
struct Scaled : Base {
  using Base::Base;
  at::Tensor losses(const nn::Batch& batch) override { return Base::losses(batch) * (batch.*factors); }
  nn::Batch make(int64_t samples, uint64_t seed, at::ScalarType type) const {
    auto batch = this->synthetic({.samples = samples, .seq_length = length}, seed, type);
    batch.*factors = at::ones({samples}, at::kFloat);
    return batch;
  }
  static void set_factor(nn::Batch& batch, int64_t sample, double factor) {
    batch.*factors = (batch.*factors).clone();
    (batch.*factors)[sample] = factor;
  }
  int64_t length = 5;
};
using Linear = Scaled<models::LinearStack, &nn::Batch::noise_BCHW>;
using Dit = Scaled<models::Dit, &nn::Batch::y_BD>;
using Decoder = Scaled<models::Decoder, &nn::Batch::y_BD>;

// visit(name, model), `times` as wide as the smallest that show everything.
template <class Visit>
void for_each_model(const Visit& visit, int64_t times = 1) {
  using models::Task;
  models::DecoderConfig decoder{
      .hidden = 32 * times, .layers = 2, .heads = 4, .kv_heads = 2, .ffn = 56 * times, .vocab = 256};
  visit("linear", Linear({.width = 24 * times, .depth = 3}, {}));
  visit("dit", Dit({.hidden = 32 * times, .layers = 2, .heads = 4, .image = 16, .patch = 4, .classes = 10}, {}));
  visit("llama", Decoder(decoder, {.task = Task::classify}));
  decoder.family = "qwen2", decoder.tied = true, decoder.qkv_bias = true;
  visit("qwen2 tied", Decoder(decoder, {.task = Task::lm}));
}

// One process with a model whose weights hide nothing: none of them begins at zero.
template <class Model>
struct Summing {
  Summing(const shard::Groups& groups, Model& m, nn::DType type)
      : model(&m), dtype(type), runtime(m.parameters(), groups, {}, {.compute = type}) {
    runtime.fill([](const nn::Weight& weight, int64_t, const at::Tensor& out) {
      auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(weight.id()));
      out.copy_(at::randn({out.numel()}, generator, at::kFloat).mul_(0.2));
    });
  }
  nn::Batch make(int64_t samples, uint64_t seed) const { return model->make(samples, seed, nn::scalar_type(dtype)); }
  train::Step step(const privacy::DpConfig& dp, const train::MicroShapes& shapes) {
    return train::Step(*model, runtime, *optimizer, optim::make_schedule({}),
                       train::step_options(dp, {.micro_shapes = shapes}));
  }
  // The whole gradient, flat.
  at::Tensor sum(train::Step& step, const std::vector<nn::Batch>& batches) {
    step.gradients(batches);
    std::vector<at::Tensor> parts;
    for (const auto& shard : runtime.shards()) parts.push_back(shard.gradient.to(at::kDouble));
    return at::cat(parts);
  }

  Model* model;
  nn::DType dtype;
  shard::Runtime runtime;
  std::unique_ptr<optim::Optimizer> optimizer = optim::make_optimizer({});
};

}  // namespace shade::test
