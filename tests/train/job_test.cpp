// A job as another program builds it: its own data set and clipping method, and what it refuses.
#include "shade/train/job.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "shade/models/linear_stack.h"
#include "shade/privacy/clip/layer_norms.h"
#include "tests/support/fault.h"
#include "tests/support/ranks.h"
#include "tests/train/remains.h"

namespace shade::train {
namespace {

using privacy::MethodName;
using test::fault;

constexpr int64_t kRecords = 40, kWidth = 4;

// y = 2 x, from memory.
class Doubles final : public data::Dataset {
 public:
  explicit Doubles(std::string fingerprint = "x in sines, y twice that") : fingerprint_(std::move(fingerprint)) {}
  int64_t size() const override { return kRecords; }
  nn::Batch batch(std::span<const int64_t> records) const override {
    nn::Batch out;
    const auto numbers = at::tensor(std::vector<int64_t>(records.begin(), records.end()), at::kLong);
    out.x_BD = (numbers.view({-1, 1}) * kWidth + at::arange(kWidth)).to(at::kFloat).sin();
    out.y_BD = 2 * out.x_BD;
    return out;
  }
  std::string describe() const override { return "40 pairs"; }
  std::string fingerprint() const override { return fingerprint_; }
  uint64_t content_of(int64_t record) const override { return static_cast<uint64_t>(record); }

 private:
  std::string fingerprint_;
};

// Bookkeeping in its plainest form; `forgets` is a weight that it leaves out.
class Own final : public privacy::ClippingMethod {
 public:
  Own(const privacy::MethodSetup& setup, std::string forgets, bool says_complete)
      : ClippingMethod(setup), forgets_(std::move(forgets)), says_complete_(says_complete) {}
  std::span<const privacy::MethodPass> passes() const override {
    static constexpr privacy::MethodPass kPasses[] = {{.gradients = false, .last = true}};
    return kPasses;
  }
  void take(nn::LayerGrad grad) override {
    norms_.admit(grad);
    privacy::add_norms(grad, {}, norms_);
    kept_.push_back(std::move(grad));
  }
  void finish() override {
    const at::NoGradGuard no_graph;
    count();
    for (const auto& grad : std::exchange(kept_, {})) {
      const auto weights = privacy::weights_of(grad);
      if (weights.front()->name() == forgets_) continue;
      add_clipped(grad, coefficients(0));
      for (const auto* weight : weights)
        if (says_complete_) sink_->complete(*weight);
    }
  }

 private:
  std::string forgets_;
  bool says_complete_;
  std::vector<nn::LayerGrad> kept_;
};

privacy::MakeMethod own(std::string forgets = "", bool says_complete = true) {
  return [=](const privacy::MethodSetup& setup) { return std::make_unique<Own>(setup, forgets, says_complete); };
}

privacy::PrivacyEvent event() {
  return {.mechanism = {.sample_rate = 0.2, .noise_multiplier = 1},
          .clip_norm = 0.5,
          .divisor = 8,
          .steps = 6,
          .delta = 1e-5};
}

struct Parts {
  models::LinearStack model{{.width = kWidth, .depth = 2}, {}};
  Doubles data;
  JobOptions options() {
    JobOptions out{.model = &model, .data = &data, .batch_size = 8, .steps = 6, .seed = 3};
    out.optimizer.optimizer = optim::Algorithm::sgd;
    out.optimizer.lr = 0.1;
    return out;
  }
  JobOptions private_options() {
    auto out = options();
    out.privacy = event();
    out.noise_seed = 7;
    return out;
  }
  std::vector<at::Tensor> weights(Job& job) {
    std::vector<at::Tensor> out;
    for (const auto& weight : model.parameters().weights()) out.push_back(job.runtime().whole(weight));
    return out;
  }
};

std::vector<at::Tensor> trained(comm::World& world, const std::function<void(JobOptions&)>& change) {
  Parts parts;
  auto options = parts.private_options();
  change(options);
  Job job(world, options);
  while (job.step()) {
  }
  return parts.weights(job);
}

TEST(Job, TrainsToItsLastStep) {
  auto world = comm::World::simulated(0, 1);
  Parts parts;
  auto options = parts.options();
  options.steps = 60;
  Job job(world, options);
  double first = 0, last = 0;
  while (const auto record = job.step()) {
    (job.steps() == 1 ? first : last) = record->loss;
    EXPECT_EQ(record->samples.samples, 8) << "shuffled";
  }
  EXPECT_EQ(job.steps(), 60);
  EXPECT_LT(last, 0.2 * first);
  EXPECT_FALSE(job.spent());
}

TEST(Job, APrivateOneCountsWhatItSpends) {
  auto world = comm::World::simulated(0, 1);
  Parts parts;
  auto options = parts.private_options();
  options.noise_seed.reset();
  options.steps = 0;
  Job job(world, options);
  int64_t steps = 0;
  while (job.step()) ++steps;
  EXPECT_EQ(steps, 6) << "those of the event";
  ASSERT_TRUE(job.spent());
  const std::vector<privacy::Steps> all{event().accounted()};
  EXPECT_EQ(job.spent()->epsilon, privacy::spent(privacy::Accountant::prv, all, 1e-5).epsilon);
}

// The data's order, dealing and micro-batches are the job's: other ranks and micro-batches change rounding alone.
TEST(Job, OtherRanksAndMicroBatchesMakeTheSameSteps) {
  std::vector<std::vector<at::Tensor>> all;
  for (const auto& [ranks, micro_batch] : {std::pair{1, 0}, {1, 2}, {2, 3}})
    test::run_ranks(ranks, test::As::threads, [&, micro_batch = micro_batch](comm::World& world) {
      const auto weights = trained(world, [&](JobOptions& options) {
        options.micro_batch = micro_batch;
        options.shard.shard = world.size() > 1 ? shard::Strategy::zero3 : shard::Strategy::none;
      });
      if (world.rank() == 0) all.push_back(weights);
    });
  for (size_t i = 1; i < all.size(); ++i)
    for (size_t w = 0; w < all[0].size(); ++w) EXPECT_TRUE(at::allclose(all[0][w], all[i][w], 1e-3, 1e-4)) << i << w;
}

TEST(Job, AMethodFromOutsideMakesTheSteps) {
  const auto steps_with = [](const privacy::MakeMethod& method) {
    auto world = comm::World::simulated(0, 1);
    return trained(world, [&](JobOptions& options) { options.method = method; });
  };
  const auto ours = steps_with(privacy::method_of(MethodName::bookkeeping)), outside = steps_with(own());
  for (size_t w = 0; w < ours.size(); ++w) EXPECT_TRUE(at::allclose(ours[w], outside[w], 1e-5, 1e-6));
}

TEST(Job, RefusesAMethodThatForgetsAWeight) {
  const auto said = [](const privacy::MakeMethod& method) {
    auto world = comm::World::simulated(0, 1);
    return fault([&] { trained(world, [&](JobOptions& options) { options.method = method; }); });
  };
  EXPECT_EQ(said(own("layers.0.weight")),
            "the clipping method wrote no gradient of weight layers.0.weight in a private step; every trainable weight "
            "needs one (sink.buffer and mark_written), or freeze it");
  EXPECT_NE(said(own("", /*says_complete=*/false)).find("gradient of weight layers.0.weight is complete"),
            std::string::npos);
  EXPECT_NE(said(privacy::method_of(MethodName::none)).find("a method that bounds no sample"), std::string::npos);
}

TEST(Job, RefusesWhatWouldWeakenIt) {
  const auto said = [](const std::function<void(Parts&, JobOptions&)>& change, bool steps = false) {
    auto world = comm::World::simulated(0, 1);
    Parts parts;
    auto options = parts.private_options();
    change(parts, options);
    return fault([&] {
      Job job(world, options);
      const std::vector<int64_t> records{1, 2};
      if (steps) job.step(std::vector{parts.data.batch(records)});
    });
  };
  EXPECT_EQ(said([](Parts&, JobOptions&) {}), "no error");
  EXPECT_NE(said([](Parts& parts, JobOptions&) { parts.data = Doubles(""); }).find("(40 pairs) has no fingerprint"),
            std::string::npos);
  EXPECT_NE(said([](Parts&, JobOptions& o) { o.steps = 7; }).find("7 steps, of which the privacy event counts 6"),
            std::string::npos);
  EXPECT_NE(said([](Parts&, JobOptions& o) { o.privacy->mechanism.noise_multiplier = 0; }).find("sigma 0"),
            std::string::npos);
  EXPECT_NE(said([](Parts&, JobOptions& o) {
              o.privacy->mechanism.sampler = privacy::Sampler::shuffled;
            }).find("no accountant answers for shuffled batches"),
            std::string::npos);
  EXPECT_NE(said([](Parts&, JobOptions&) {}, /*steps=*/true).find("batches from outside in a private job"),
            std::string::npos);
  EXPECT_NE(said(
                [](Parts&, JobOptions& o) {
                  o.privacy.reset();
                  o.method = own();
                  o.data = nullptr;
                },
                /*steps=*/true)
                .find("a clipping method without a privacy event"),
            std::string::npos);
}

// What one job in a folder spends counts for the next one, whose noise is its own.
TEST(Job, AFolderKeepsTheLedger) {
  const Scratch here;
  const auto folder = here.path() / "run";
  std::vector<double> epsilons;
  std::vector<at::Tensor> weights;
  for (int run = 0; run < 2; ++run) {
    auto world = comm::World::simulated(0, 1);
    Parts parts;
    auto options = parts.private_options();
    options.noise_seed.reset();
    options.folder = folder.string();
    Job job(world, options);
    EXPECT_FALSE(std::filesystem::exists(folder / "key")) << "no step is made again, so it has no use";
    while (job.step()) {
    }
    epsilons.push_back(job.spent()->epsilon);
    weights.push_back(parts.weights(job)[0]);
  }
  EXPECT_TRUE(std::filesystem::exists(folder / "ledger"));
  EXPECT_GT(epsilons[1], 1.2 * epsilons[0]);
  EXPECT_FALSE(at::equal(weights[0], weights[1])) << "the same key twice";
}

}  // namespace
}  // namespace shade::train
