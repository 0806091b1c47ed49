// How far one sample can move the sum: |sum(D + x) - sum(D)| <= C, whatever x is, without noise.
//
// Methods x styles x models x kinds of x, over random batches. SHADE_FULL_MATRIX: 14 times as many batches.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>

#include "shade/models/decoder.h"
#include "shade/models/dit.h"
#include "shade/models/linear_stack.h"
#include "shade/optim/config.h"
#include "shade/train/step.h"
#include "tests/support/ranks.h"

namespace shade::train {
namespace {

using privacy::ClipStyle, privacy::MethodName;

constexpr double kNorm = 0.7, kInf = std::numeric_limits<double>::infinity();
constexpr int64_t kOthers = 3, kT = 5;

const MethodName kMethods[] = {MethodName::materialize,      MethodName::ghost,     MethodName::flash,
                               MethodName::bookkeeping,      MethodName::streaming, MethodName::automatic,
                               MethodName::flash_bookkeeping};
const ClipStyle kStyles[] = {ClipStyle::flat, ClipStyle::per_layer, ClipStyle::group, ClipStyle::automatic,
                             ClipStyle::adaptive};

// What is done to the one sample: its loss is scaled (and so its gradient), or its input.
struct Kind {
  double loss = 1, input = 1;
  bool finite = true;  // false: must contribute nothing
  std::string name() const { return text("loss x ", loss, ", input x ", input); }
};
const std::vector<Kind> kKinds{{1e-20},
                               {1e-12},
                               {1e-6},
                               {1e-3},
                               {1},
                               {1e3},
                               {1e6},
                               {1e12},
                               {1e20},
                               {-1e6},
                               {0},
                               {std::nan(""), 1, false},
                               {kInf, 1, false},
                               {1, 1e-20},
                               {1, 1e20}};

// The factor of each sample's loss travels in a field that the model doesn't read.
template <class Base, at::Tensor nn::Batch::* factors>
struct Scaled : Base {
  using Base::Base;
  at::Tensor losses(const nn::Batch& batch) override { return Base::losses(batch) * (batch.*factors); }
  nn::Batch make(int64_t samples, uint64_t seed) const {
    auto batch = this->synthetic({.samples = samples, .seq_length = kT}, seed, at::kFloat);
    batch.*factors = at::ones({samples}, at::kFloat);
    return batch;
  }
  static void set_factor(nn::Batch& batch, int64_t sample, double factor) {
    batch.*factors = (batch.*factors).clone();
    (batch.*factors)[sample] = factor;
  }
};
using Linear = Scaled<models::LinearStack, &nn::Batch::noise_BCHW>;
using Dit = Scaled<models::Dit, &nn::Batch::y_BD>;
using Decoder = Scaled<models::Decoder, &nn::Batch::y_BD>;

template <class Model>
class Sensitivity {
 public:
  Sensitivity(const shard::Groups& groups, std::string name, Model& model)
      : name_(std::move(name)), model_(&model), runtime_(model.parameters(), groups, {}) {
    runtime_.fill([](const nn::Weight& weight, int64_t, const at::Tensor& out) {  // nothing begins at zero
      auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(weight.id()));
      out.copy_(at::randn({out.numel()}, generator, at::kFloat).mul_(0.2));
    });
  }

  int64_t run(int64_t batches) {
    int64_t cases = 0;
    for (const auto method : kMethods)
      for (const auto style : kStyles) {
        Step step(*model_, runtime_, *optimizer_, optim::make_schedule({}),
                  {.dp = {.dp = method, .clip_style = style, .tile_size = 2, .max_grad_norm = kNorm, .noise_seed = 1},
                   .rehearsal = true});
        for (int64_t b = 0; b < batches; ++b) {
          const auto seed = static_cast<uint64_t>(1000 * cases + b);
          const auto all = model_->make(kOthers + 1, seed);
          // The others alone; and beside a sample that is left out, whose place alone may change how sums are rounded.
          const auto without = sum(step, all.rows(0, kOthers));
          auto bad = all;
          Model::set_factor(bad, kOthers, -kInf);
          const auto beside = sum(step, bad);
          EXPECT_LT((beside - without).norm().template item<double>(), 1e-5 * kNorm) << name_;
          step.method()->drain_counts();
          for (const auto& kind : kKinds) {
            check(step, all, kind, {without, beside},
                  text(name_, " ", to_string(method), " ", to_string(style), " batch ", b));
            ++cases;
          }
        }
      }
    return cases;
  }

 private:
  // The whole gradient, flat.
  at::Tensor sum(Step& step, const nn::Batch& batch) {
    step.gradients(std::vector{batch});
    std::vector<at::Tensor> parts;
    for (const auto& shard : runtime_.shards()) parts.push_back(shard.gradient.clone());
    return at::cat(parts);
  }

  struct Others {
    at::Tensor alone, beside_bad;
  };
  void check(Step& step, const nn::Batch& all, const Kind& kind, const Others& others, const std::string& what) {
    auto batch = all;
    Model::set_factor(batch, kOthers, kind.loss);
    for (auto* input : {&batch.x_BD, &batch.images_BCHW}) {
      if (!input->defined() || kind.input == 1) continue;
      *input = input->clone();
      (*input)[kOthers].mul_(kind.input);
    }
    const auto with = sum(step, batch);
    const auto counts = step.method()->drain_counts();
    const auto gap = (with.to(at::kDouble) - others.alone.to(at::kDouble)).norm().template item<double>();
    EXPECT_LE(gap, kNorm * (1 + 1e-5)) << what << ", " << kind.name();
    EXPECT_EQ(counts.samples, kOthers + 1);
    const bool one_group = step.method()->clipper().flat();
    if (!kind.finite) {
      EXPECT_EQ(counts.not_finite, 1) << what << ", " << kind.name();
    }
    if (!kind.finite || (counts.not_finite == 1 && one_group)) {
      EXPECT_TRUE(with.equal(others.beside_bad)) << what << ", " << kind.name() << ": not finite, and still in the sum";
    }
    if (kind.loss == 1 && kind.input == 1) {
      EXPECT_GT(gap, 1e-3) << what << ": an ordinary sample must be seen";
    }
  }

  std::string name_;
  Model* model_;
  shard::Runtime runtime_;
  std::unique_ptr<optim::Optimizer> optimizer_ = optim::make_optimizer({});
};

TEST(OneSample, MovesTheSumByAtMostTheNorm) {
  const int64_t batches = std::getenv("SHADE_FULL_MATRIX") != nullptr ? 14 : 1;
  test::run_ranks(1, test::As::threads, [&](comm::World& world) {
    at::set_num_threads(1);  // tensors of a few hundred elements
    const auto groups = shard::connect_groups(world, {});
    int64_t cases = 0;
    const auto run = [&](const std::string& name, auto&& model) {
      Sensitivity test(groups, name, model);
      cases += test.run(batches);
    };
    models::DecoderConfig decoder{.hidden = 32, .layers = 2, .heads = 4, .kv_heads = 2, .ffn = 56, .vocab = 256};
    run("linear", Linear(models::LinearStackConfig{.width = 24, .depth = 3}, models::ModelOptions{}));
    run("dit", Dit(models::DitConfig{.hidden = 32, .layers = 2, .heads = 4, .image = 16, .patch = 4, .classes = 10},
                   models::ModelOptions{}));
    run("llama", Decoder(decoder, models::ModelOptions{.task = models::Task::classify}));
    decoder.family = "qwen2", decoder.tied = true, decoder.qkv_bias = true;
    run("qwen2 tied", Decoder(decoder, models::ModelOptions{.task = models::Task::lm}));
    EXPECT_EQ(cases, 2100 * batches);
  });
}

// Factors in bf16, the sum in fp32. Of 64 equal samples the sum is so long that its neighbours in bf16 are further away
// than a small sample: rounded, it would stay or jump.
TEST(OneSample, MovesAWideSumOfNarrowFactorsByItself) {
  test::run_ranks(1, test::As::threads, [&](comm::World& world) {
    at::set_num_threads(1);
    Linear model(models::LinearStackConfig{.width = 24, .depth = 3}, models::ModelOptions{});
    shard::Runtime runtime(model.parameters(), shard::connect_groups(world, {}), {}, {.compute = nn::DType::bf16});
    runtime.initialise(1);
    const auto optimizer = optim::make_optimizer({});
    constexpr int64_t kMany = 64;
    auto all = model.make(kMany + 1, 1);
    all.x_BD = at::cat({all.x_BD.narrow(0, 0, 1).repeat({kMany, 1}), all.x_BD.narrow(0, kMany, 1)}).to(at::kBFloat16);
    all.y_BD = at::cat({all.y_BD.narrow(0, 0, 1).repeat({kMany, 1}), all.y_BD.narrow(0, kMany, 1)}).to(at::kBFloat16);
    for (const auto method : kMethods) {
      Step step(model, runtime, *optimizer, optim::make_schedule({}),
                {.dp = {.dp = method, .tile_size = 2, .max_grad_norm = 1e-3, .noise_seed = 1}, .rehearsal = true});
      const auto sum = [&](const nn::Batch& batch) {
        step.gradients(std::vector{batch});
        std::vector<at::Tensor> parts;
        for (const auto& shard : runtime.shards()) parts.push_back(shard.gradient.to(at::kDouble));
        return at::cat(parts);
      };
      for (const double factor : {1e-4, 1e-3, 1e-2, 1.0}) {
        Linear::set_factor(all, kMany, factor);
        const auto alone = sum(all.rows(kMany, 1)), moved = sum(all) - sum(all.rows(0, kMany));
        const auto size = alone.norm().item<double>();
        EXPECT_GT(size, 0);
        EXPECT_LE((moved - alone).norm().item<double>(), 0.02 * size + 1e-9) << to_string(method) << " x " << factor;
      }
    }
  });
}

}  // namespace
}  // namespace shade::train
