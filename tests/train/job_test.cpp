// A job as another program builds it: its own data set and clipping method, and what it refuses.
#include "shade/train/job.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "shade/models/linear_stack.h"
#include "shade/train/run_folder.h"
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
  uint64_t content_of(int64_t record) const override { return static_cast<uint64_t>(record + 1) * 0x9e3779b97f4a7c15; }
  data::SampleUnit unit() const override { return is; }

  data::SampleUnit is = data::SampleUnit::record;

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
      Loader loader(
          data,
          {.split = split, .event = event(), .shapes = micro_batch, .ranks = ranks, .rank = rank, .key = [](int64_t) {
             return privacy::seeded_key(1);
           }});
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

// Its noise would be another than the one that is accounted for.
TEST(Job, RefusesAMethodMadeForAnotherEvent) {
  const auto said = [](double sigma, double clip_norm) {
    auto other = event();
    other.mechanism.noise_multiplier = sigma;
    other.clip_norm = clip_norm;
    auto world = comm::World::simulated(0, 1);
    return fault([&] { trained(world, [&](JobOptions& options) { options.method = own_method({.event = other}); }); });
  };
  EXPECT_EQ(said(1, 0.5), "no error");
  EXPECT_EQ(said(0, 0.5),
            "the clipping method was made for sigma 0 and clip norm 0.5, and the privacy event has 1 and 0.5; make its "
            "base from the setup that it gets (privacy::MethodSetup::event)");
  EXPECT_NE(said(1, 5).find("clip norm 5, and the privacy event has 1 and 0.5"), std::string::npos);
}

TEST(Job, RefusesAMethodThatMeasuresOrWritesOutOfTurn) {
  const auto said = [](const OwnFaults& faults) {
    auto world = comm::World::simulated(0, 1);
    return fault([&] { trained(world, [&](JobOptions& options) { options.method = own_method(faults); }); });
  };
  EXPECT_EQ(
      said({.unmeasured = "layers.1.weight"}),
      "weight layers.1.weight was handed over 1 times, and the clipping method added norms of it 0 times, so "
      "samples would be clipped by less than their gradients; call add_norms (clip/layer_norms.h) for each layer");
  EXPECT_NE(said({.weighs_early = true}).find("no layer handed over its gradient in this pass"), std::string::npos);
  EXPECT_EQ(said({.writes_late = true}),
            "the clipping method writes the gradient of weight layers.1.weight after it said that it is complete, so "
            "what it adds may miss the sum over ranks; call sink.complete after the last write");
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
  EXPECT_NE(said([](Parts&, JobOptions& o) {
              o.folder = "run";
              o.rehearsal = true;
            }).find("a rehearsal has no ledger"),
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

// One record more must not move others from one use to the other, nor be in two samples.
TEST(Job, RefusesDataWhoseNeighboursDifferInMoreThanASample) {
  const auto said = [](const std::function<void(Parts&, JobOptions&)>& change) {
    auto world = comm::World::simulated(0, 1);
    Parts parts;
    auto options = parts.private_options();
    change(parts, options);
    return fault([&] { const Job job(world, options); });
  };
  const auto split = [&](const HeldOut& split) {
    return said([&](Parts&, JobOptions& options) { options.split = split; });
  };
  EXPECT_EQ(split(HeldOut::by_content(Doubles(), 8)), "no error");
  EXPECT_EQ(split(HeldOut::by_position(kRecords, 0)), "no error");
  EXPECT_NE(split(HeldOut::by_position(kRecords, 5)).find("held out by position"), std::string::npos);
  EXPECT_NE(split(HeldOut::behind(kRecords, 5, "")).find("held out by position"), std::string::npos);
  EXPECT_NE(split(HeldOut::by_position(30, 0)).find("the split is of 30 records, the data set has 40"),
            std::string::npos);
  const auto units = [&](data::SampleUnit sample, privacy::PrivacyUnit unit) {
    return said([&](Parts& parts, JobOptions& options) {
      parts.data.is = sample;
      options.privacy->unit = unit;
    });
  };
  EXPECT_EQ(units(data::SampleUnit::window, privacy::PrivacyUnit::window), "no error");
  EXPECT_EQ(units(data::SampleUnit::window, privacy::PrivacyUnit::record),
            "a sample of the data set (40 pairs) is a window, and the privacy event protects a record; set "
            "PrivacyEvent::unit to what a sample is");
  EXPECT_NE(units(data::SampleUnit::record, privacy::PrivacyUnit::window).find("is a record"), std::string::npos);
  EXPECT_NE(units(data::SampleUnit::overlapping_window, privacy::PrivacyUnit::window).find("must not share a token"),
            std::string::npos);
}

TEST(Job, StatesAnEpsilonOnlyForSecretNoiseThatIsAccounted) {
  const auto why = [](const std::function<void(JobOptions&)>& change) {
    auto world = comm::World::simulated(0, 1);
    Parts parts;
    auto options = parts.private_options();
    options.noise_seed.reset();
    change(options);
    Job job(world, options);
    job.step();
    EXPECT_EQ(job.spent().has_value(), job.no_epsilon().empty());
    return job.no_epsilon();
  };
  EXPECT_EQ(why([](JobOptions&) {}), "");
  EXPECT_EQ(why([](JobOptions& o) { o.privacy.reset(); }), "not private");
  EXPECT_EQ(why([](JobOptions& o) { o.noise_seed = 7; }), "the noise has a seed");
  EXPECT_EQ(why([](JobOptions& o) { o.unaccounted = true; }), "the job is unaccounted");
  EXPECT_EQ(why([](JobOptions& o) { o.rehearsal = true; }), "a rehearsal protects nothing");
  EXPECT_EQ(why([](JobOptions& o) { o.key = [](int64_t) { return privacy::seeded_key(1); }; }),
            "the noise key is the caller's, who may know it or have used it before");
}

TEST(Job, CountsNoiseAndNotTheOptimizersSteps) {
  Parts parts;
  auto options = parts.private_options();
  options.noise_seed.reset();
  {
    auto world = comm::World::simulated(0, 1);
    Job job(world, options);
    job.step();
    job.step();
    job.optimizer().set_steps(4);
    job.step();
    const std::vector<privacy::Steps> three{{event().mechanism, 3}};
    EXPECT_EQ(job.spent()->epsilon, privacy::spent(privacy::Accountant::prv, three, 1e-5).epsilon);
    EXPECT_NE(fault([&] { job.add_noise(); }).find("noise by itself is for rehearsals"), std::string::npos);
  }
  for (const bool folder : {false, true}) {
    const io::Scratch here;
    if (folder) options.folder = (here.path() / "run").string();
    auto world = comm::World::simulated(0, 1);
    Job job(world, options);
    job.optimizer().set_steps(3);
    const auto said = fault([&] { job.step(); });
    EXPECT_EQ(said.find("the optimizer is at step 3 before the first step of this job") != said.npos, folder) << said;
    if (!folder) EXPECT_EQ(job.no_epsilon(), "the optimizer was at step 3 before the job's first step");
    EXPECT_EQ(job.spent().has_value(), folder) << "nothing was drawn";
  }
}

TEST(Job, EndsNoLaterThanItsOptionsSay) {
  auto world = comm::World::simulated(0, 1);
  Parts parts;
  Job job(world, parts.private_options());
  EXPECT_EQ(fault([&] { job.end_at(7); }), "an end after 7 steps; expected 1 to 6, the end that the options say");
  EXPECT_NE(fault([&] { job.end_at(0); }), "no error");
  job.end_at(2);
  while (job.step()) {
  }
  EXPECT_EQ(job.steps(), 2);
}

TEST(Job, RefusesRanksWithOtherOptions) {
  const auto said = [](const std::function<void(JobOptions&)>& change) {
    std::vector<std::string> by_rank(2);
    test::run_ranks(2, test::As::threads, [&](comm::World& world) {
      by_rank[static_cast<size_t>(world.rank())] = fault([&] {
        trained(world, [&](JobOptions& options) {
          options.shard.shard = shard::Strategy::ddp;
          if (world.rank() == 1) change(options);
        });
      });
    });
    EXPECT_EQ(by_rank[0], by_rank[1]) << "both know";
    return by_rank[0];
  };
  EXPECT_EQ(said([](JobOptions& o) { o.privacy->mechanism.noise_multiplier = 2; }),
            "comparing the job's options with rank 0's failed on rank 1: privacy/sigma is 2.0, rank 0 has 1.0; give "
            "every rank the same JobOptions");
  EXPECT_NE(said([](JobOptions& o) { o.optimizer.lr = 0.2; }).find("rank 1: optimizer/lr is 0.2, rank 0 has 0.1"),
            std::string::npos);
  EXPECT_NE(said([](JobOptions& o) {
              o.method = privacy::method_of(MethodName::automatic, {.style = privacy::ClipStyle::automatic});
            }).find("rank 1: clip/style is \"automatic\", rank 0 has \"flat\""),
            std::string::npos);
}

// A record that is another number on another rank could be drawn twice in a step.
TEST(Job, RefusesRanksWithOtherRecords) {
  std::vector<std::string> by_rank(2);
  test::run_ranks(2, test::As::threads, [&](comm::World& world) {
    const Doubles other("cosines");
    by_rank[static_cast<size_t>(world.rank())] = fault([&] {
      trained(world, [&](JobOptions& options) {
        options.shard.shard = shard::Strategy::zero3;
        if (world.rank() == 1) options.data = &other;
      });
    });
  });
  EXPECT_EQ(by_rank[0], by_rank[1]);
  EXPECT_NE(by_rank[0].find("the records of this rank (40 pairs) or those it holds out are not those of rank 0"),
            std::string::npos)
      << by_rank[0];
  EXPECT_EQ(by_rank[0].find("cosines"), std::string::npos) << "nothing that follows from the records";
}

TEST(Job, RefusesARankWithoutRecords) {
  std::vector<std::string> by_rank(2);
  test::run_ranks(2, test::As::threads, [&](comm::World& world) {
    by_rank[static_cast<size_t>(world.rank())] = fault([&] {
      trained(world, [&](JobOptions& options) {
        options.shard.shard = shard::Strategy::zero3;
        if (world.rank() == 1) options.data = nullptr;
      });
    });
  });
  EXPECT_EQ(by_rank[0], by_rank[1]);
  EXPECT_NE(by_rank[0].find("job/data is false, rank 0 has true"), std::string::npos) << by_rank[0];
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
    int64_t released = 0;
    options.before_noise = [&](int64_t, const io::Digest&) { ++released; };
    Job job(world, options);
    EXPECT_FALSE(std::filesystem::exists(folder / "key")) << "no step is made again, so it has no use";
    while (job.step()) {
    }
    EXPECT_EQ(released, 6);
    epsilons.push_back(job.spent()->epsilon);
    weights.push_back(parts.weights(job)[0]);
  }
  EXPECT_TRUE(std::filesystem::exists(folder / "ledger"));
  EXPECT_GT(epsilons[1], 1.2 * epsilons[0]);
  EXPECT_FALSE(at::equal(weights[0], weights[1])) << "the same key twice";
}

// A later job in the folder states no epsilon over steps that have none.
TEST(Job, AFolderKnowsStepsThatNoAccountantAnswersFor) {
  const auto why_after = [](const std::function<void(Parts&, JobOptions&)>& change) {
    const io::Scratch here;
    std::string why;
    for (const bool first : {true, false}) {
      auto world = comm::World::simulated(0, 1);
      Parts parts;
      auto options = parts.private_options();
      options.noise_seed.reset();
      options.folder = (here.path() / "run").string();
      if (first) change(parts, options);
      Job job(world, options);
      job.step();
      why = job.no_epsilon();
      EXPECT_EQ(job.spent().has_value(), why.empty());
    }
    return why;
  };
  EXPECT_EQ(why_after([](Parts&, JobOptions&) {}), "");
  EXPECT_EQ(why_after([](Parts&, JobOptions& o) { o.unaccounted = true; }),
            "the ledger has earlier steps that no accountant answers for");
  EXPECT_EQ(why_after([](Parts&, JobOptions& o) { o.noise_seed = 7; }),
            "the ledger has earlier steps whose noise had a seed");
  EXPECT_EQ(why_after([](Parts& parts, JobOptions& o) {
              parts.data.is = data::SampleUnit::window;
              o.privacy->unit = privacy::PrivacyUnit::window;
            }),
            "the ledger has earlier steps that protect one window, not one record");
}

TEST(Job, LeavesTheFolderOfAnotherRunAlone) {
  for (const bool key : {true, false}) {
    const io::Scratch here;
    const auto folder = here.path() / "run";
    const RunFolder run(folder, Readers::owner);
    if (key)
      run.make_key();
    else
      std::filesystem::create_directory(run.checkpoints() / "step-2");
    auto world = comm::World::simulated(0, 1);
    Parts parts;
    auto options = parts.private_options();
    options.noise_seed.reset();
    options.folder = folder.string();
    EXPECT_NE(fault([&] { const Job job(world, options); }).find("of a run that may go on"), std::string::npos);
    EXPECT_EQ(std::filesystem::exists(folder / "key"), key);
    EXPECT_FALSE(std::filesystem::exists(folder / "ledger"));
  }
}

}  // namespace
}  // namespace shade::train
