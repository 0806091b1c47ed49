// A job as another program builds it: its own data set and clipping method, and what it refuses.
#include "shade/train/job.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "shade/models/linear_stack.h"
#include "tests/support/fault.h"
#include "tests/support/ranks.h"
#include "tests/train/own_method.h"
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

// Whatever the ranks and the micro-batch, each drawn record is somewhere exactly once, and held-out ones are nowhere.
TEST(Loader, DealsEveryDrawnRecordOnce) {
  const Doubles data;
  const auto split = HeldOut::by_position(kRecords, 10);
  const auto records_of = [&](int ranks, int64_t micro_batch, int64_t step, bool ahead) {
    std::vector<int64_t> all;
    size_t micro_steps = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      Loader loader(data, {.split = split,
                           .event = event(),
                           .micro_batch = micro_batch,
                           .ranks = ranks,
                           .rank = rank,
                           .key = [](int64_t) { return privacy::seeded_key(1); }});
      if (ahead) loader.take(step - 1, step + 1);
      const auto loaded = ahead ? loader.take(step, step + 1) : loader.load(step);
      EXPECT_TRUE(rank == 0 || micro_steps == loaded.micro_batches.size()) << "as many on every rank";
      micro_steps = loaded.micro_batches.size();
      for (const auto& batch : loaded.micro_batches) {
        EXPECT_EQ(batch.samples(), std::ssize(batch.records));
        all.insert(all.end(), batch.records.begin(), batch.records.end());
      }
    }
    std::sort(all.begin(), all.end());
    return all;
  };
  for (int64_t step = 1; step < 5; ++step) {
    const auto drawn = records_of(1, kRecords, step, false);
    EXPECT_EQ(std::adjacent_find(drawn.begin(), drawn.end()), drawn.end());
    for (const auto held_out : split.evaluation_records())
      EXPECT_FALSE(std::binary_search(drawn.begin(), drawn.end(), held_out));
    for (const int ranks : {1, 2, 3})
      for (const bool ahead : {false, true}) EXPECT_EQ(records_of(ranks, 2, step, ahead), drawn) << ranks << ahead;
  }
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
    test::run_ranks(ranks, test::As::threads, [&, samples = micro_batch](comm::World& world) {
      const auto weights = trained(world, [&](JobOptions& options) {
        options.micro_batch = samples;
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
  const auto ours = steps_with(privacy::method_of(MethodName::bookkeeping)), outside = steps_with(own_method());
  for (size_t w = 0; w < ours.size(); ++w) EXPECT_TRUE(at::allclose(ours[w], outside[w], 1e-5, 1e-6));
}

TEST(Job, RefusesAMethodThatForgetsAWeight) {
  const auto said = [](const privacy::MakeMethod& method) {
    auto world = comm::World::simulated(0, 1);
    return fault([&] { trained(world, [&](JobOptions& options) { options.method = method; }); });
  };
  EXPECT_EQ(said(own_method({.forgets = "layers.0.weight"})),
            "the clipping method wrote no gradient of weight layers.0.weight in a private step; every trainable weight "
            "needs one (sink.buffer and mark_written), or freeze it");
  EXPECT_NE(said(own_method({.says_complete = false})).find("gradient of weight layers.0.weight is complete"),
            std::string::npos);
  EXPECT_NE(said(privacy::method_of(MethodName::none)).find("a method that bounds no sample"), std::string::npos);
}

TEST(Job, RefusesAMethodWithAnotherEvent) {
  const auto said = [](const std::function<void(privacy::PrivacyEvent&)>& change) {
    auto world = comm::World::simulated(0, 1);
    return fault([&] {
      trained(world, [&](JobOptions& options) {
        options.method = [&](privacy::MethodSetup setup) {
          change(setup.event);
          return own_method()(setup);
        };
      });
    });
  };
  EXPECT_EQ(said([](privacy::PrivacyEvent&) {}), "no error");
  EXPECT_EQ(said([](privacy::PrivacyEvent& e) { e.clip_norm = 0.25; }),
            "the method clips to 0.25 and asks for a sigma of 1, but the privacy event has clip norm 0.5 and sigma 1; "
            "make its Clipper from MethodSetup::event");
  EXPECT_NE(said([](privacy::PrivacyEvent& e) { e.mechanism.noise_multiplier = 0.5; }).find("sigma of 0.5"),
            std::string::npos);
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
                  o.method = own_method();
                  o.data = nullptr;
                },
                /*steps=*/true)
                .find("a clipping method without a privacy event"),
            std::string::npos);
}

// What one job in a folder spends counts for the next one, whose noise is its own.
TEST(Job, AFolderKeepsTheLedger) {
  const io::Scratch here;
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
