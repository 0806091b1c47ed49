// Gradients in bf16 are about as near to the exact ones as those of transformers: the same weights, the same records.
//
// We write a model, its records and our gradients of them; tools/golden/check_bf16.py computes the exact gradients and
// those of transformers in bf16, and compares every weight's. SHADE_FULL_MATRIX: larger batches, every method.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "shade/io/safetensors_writer.h"
#include "shade/models/registry.h"
#include "shade/models/weights.h"
#include "shade/optim/config.h"
#include "shade/train/step/step.h"
#include "tests/support/process.h"
#include "tests/support/ranks.h"

namespace shade::train {
namespace {

namespace fs = std::filesystem;
using privacy::MethodName;

const bool full = std::getenv("SHADE_FULL_MATRIX") != nullptr;

struct Case {
  std::string model;
  int64_t vocab, samples, length;
  int64_t draws = 1;  // of records; errors are over all of them
};

// The head works on slices of the vocabulary, 64 MiB of logits each: up to 8 of them here, 32 in the full matrix.
std::vector<Case> cases() {
  if (!full)
    return {{"qwen2-nano", 32'000, 1, 32, 8},
            {"qwen2-nano", 32'000, 8, 32, 2},
            {"qwen2-nano", 32'000, 64, 32, 1},
            {"llama-nano", 128'256, 1, 32, 4},
            {"llama-nano", 128'256, 16, 64, 1}};
  std::vector<Case> out;
  for (const int64_t samples : {1, 2, 4, 8, 16, 32, 64}) {
    // Its biases have 16 elements: over one draw their errors are chance, up to twice those of transformers.
    out.push_back({"qwen2-nano", 32'000, samples, 64, std::max<int64_t>(8, 16 / samples)});
    out.push_back({"llama-nano", 128'256, samples, 64, std::max<int64_t>(1, 16 / samples)});
  }
  out.push_back({"llama-nano", 32'000, 64, 256, 1});
  return out;
}

std::vector<MethodName> methods() {
  if (!full) return {MethodName::automatic};
  return catalog::private_methods();
}

// Products as large as their inputs, gains about one, and numbers that bf16 holds, so that all types begin alike.
at::Tensor value_of(const nn::Weight& weight) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(weight.id()) + 1);
  const auto& shape = weight.shape();
  const bool gain = shape.size() == 1 && weight.init().value == 1;
  const double spread = shape.size() == 1 ? 0.1 : std::sqrt(1.0 / static_cast<double>(shape[1]));
  return at::randn(shape, generator, at::kFloat).mul_(spread).add_(gain ? 1 : 0).to(at::kBFloat16);
}

// Frequent tokens and rare ones, records of several lengths.
nn::Batch batch_of(const Case& c, int64_t draw) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(draw));
  nn::Batch batch;
  const auto drawn = at::rand({c.samples, c.length}, generator, at::kDouble);
  batch.ids_BT = (drawn.pow(4) * static_cast<double>(c.vocab)).to(at::kLong);
  const auto lengths = c.length - at::arange(c.samples).remainder(c.length / 2);
  batch.mask_BT = (at::arange(c.length) < lengths.unsqueeze(1)).to(at::kLong);
  batch.labels = batch.ids_BT.masked_fill(batch.mask_BT == 0, -100);
  return batch;
}

class Written {
 public:
  Written(const Case& c, fs::path folder, const shard::Groups& groups)
      : folder_(std::move(folder)),
        model_(models::make_model(c.model, {.vocab_size = c.vocab},
                                  {.task = models::Task::lm, .loss_mean = models::LossMean::token})) {
    auto& parameters = model_->parameters();
    for (auto& weight : parameters.weights()) weight.bind(value_of(weight));
    models::save_model(*model_, folder_);
    runtime_ = std::make_unique<shard::Runtime>(parameters, groups, shard::ShardConfig{},
                                                shard::Runtime::Options{.compute = nn::DType::bf16});
    runtime_->fill([](const nn::Weight& weight, int64_t begin, at::Tensor out) {
      out.copy_(value_of(weight).view(-1).narrow(0, begin, out.numel()));
    });
  }

  void gradients_of(const nn::Batch& batch, int64_t draw) {
    batch_ = batch;
    middle_ = 0;
    tensors_ = {{"input_ids", batch.ids_BT}, {"attention_mask", batch.mask_BT}};
    keep("plain", {});
    for (const auto method : methods()) clipped(method);
    io::write_safetensors(folder_ / text("shade_", draw, ".safetensors"), tensors_);
  }

 private:
  // Half of the samples are clipped: a private sum, as it is before the noise.
  void clipped(MethodName method) {
    privacy::DpConfig dp{.dp = method, .max_grad_norm = middle_norm(), .noise_seed = 1};
    tensors_["threshold"] = at::full(
        {1}, dp.max_grad_norm * (1 - privacy::clip_margin(model_->parameters().count_trainable())), at::kDouble);
    keep(to_string(method), dp);
  }

  Step step(const privacy::DpConfig& dp) {
    return {*model_, *runtime_, *optimizer_, optim::make_schedule({}),
            step_options(dp, {.micro_shapes = batch_.samples(), .rehearsal = true})};
  }
  void keep(const std::string& what, const privacy::DpConfig& dp) {
    step(dp).gradients({&batch_, 1});
    for (const auto& weight : model_->parameters().weights())
      tensors_[text(what, "/", weight.name())] = runtime_->whole(weight, shard::Runtime::Part::gradient).clone();
    runtime_->updated();
  }
  double middle_norm() {
    if (middle_ > 0) return middle_;
    auto trial = step({.dp = MethodName::ghost, .noise_seed = 1});
    trial.method().record_norms(true);
    trial.gradients({&batch_, 1});
    const auto squares_B = trial.method().drain_norms().at(0).squares_B;
    runtime_->updated();
    return middle_ = 0.9 * std::sqrt(squares_B.to(at::kDouble).median().item<double>());
  }

  fs::path folder_;
  nn::Batch batch_;
  std::unique_ptr<models::Model> model_;
  std::unique_ptr<shard::Runtime> runtime_;
  std::unique_ptr<optim::Optimizer> optimizer_ = optim::make_optimizer({});
  io::TensorMap tensors_;
  double middle_ = 0;
};

TEST(Bf16, GradientsStayNearThoseOfTransformers) {
  const auto python = test::source_root() + "/.deps/peers/bin/python";
  if (!fs::exists(python)) GTEST_SKIP() << "no transformers: run tools/bootstrap peers";
  const auto root = fs::path(testing::TempDir()) / text("bf16_", ::getpid());
  test::run_ranks(1, test::As::threads, [&](comm::World& world) {
    const auto groups = shard::connect_groups(world, shard::policy_of({}, 1));
    for (const auto& c : cases()) {
      Written written(c, root / text(c.model, "_v", c.vocab, "_b", c.samples, "_t", c.length), groups);
      for (int64_t draw = 0; draw < c.draws; ++draw) written.gradients_of(batch_of(c, draw), draw);
    }
  });
  const auto seen = test::run({python, test::source_root() + "/tools/golden/check_bf16.py", root.string()},
                              {.environment = {{"PYTHONDONTWRITEBYTECODE", "1"}}, .limit = Seconds(full ? 3000 : 280)});
  EXPECT_EQ(seen.status, 0) << seen.output;
  std::printf("%s", seen.output.c_str());
  fs::remove_all(root);
}

}  // namespace
}  // namespace shade::train
