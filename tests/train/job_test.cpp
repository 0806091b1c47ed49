// A job as another program builds it, with its own data set and clipping method.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "shade/train/run/run_folder.h"
#include "shade/train/step/slots.h"
#include "tests/support/fault.h"
#include "tests/support/ranks.h"
#include "tests/train/job_parts.h"
#include "tests/train/own_method.h"
#include "tests/train/remains.h"

namespace shade::train {
namespace {

using privacy::MethodName;
using test::fault;

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
  options.step.noise_seed.reset();
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
    return trained(world, [&](JobOptions& options) { options.step.method = method; });
  };
  const auto ours = steps_with(privacy::method_of(MethodName::bookkeeping)), outside = steps_with(own_method());
  for (size_t w = 0; w < ours.size(); ++w) EXPECT_TRUE(at::allclose(ours[w], outside[w], 1e-5, 1e-6));
}

TEST(Job, StatesAnEpsilonOnlyForSecretNoiseThatIsAccounted) {
  const auto why = [](const std::function<void(JobOptions&)>& change) {
    auto world = comm::World::simulated(0, 1);
    Parts parts;
    auto options = parts.private_options();
    options.step.noise_seed.reset();
    change(options);
    Job job(world, options);
    job.step();
    EXPECT_EQ(job.spent().has_value(), job.no_epsilon().empty());
    return job.no_epsilon();
  };
  EXPECT_EQ(why([](JobOptions&) {}), "");
  EXPECT_EQ(why([](JobOptions& o) { o.step.privacy.reset(); }), "not private");
  EXPECT_EQ(why([](JobOptions& o) { o.step.noise_seed = 7; }), "the noise has a seed");
  EXPECT_EQ(why([](JobOptions& o) { o.unaccounted = true; }), "the job is unaccounted");
  EXPECT_EQ(why([](JobOptions& o) { o.step.rehearsal = true; }), "a rehearsal protects nothing");
  EXPECT_EQ(why([](JobOptions& o) { o.step.key = [](int64_t) { return privacy::seeded_key(1); }; }),
            "the noise key is the caller's, who may know it or have used it before");
}

TEST(Job, CountsNoiseAndNotTheOptimizersSteps) {
  Parts parts;
  auto options = parts.private_options();
  options.step.noise_seed.reset();
  {
    auto world = comm::World::simulated(0, 1);
    Job job(world, options);
    job.step();
    job.step();
    job.optimizer().set_steps(4);
    job.step();
    const std::vector<privacy::Steps> three{{event().mechanism, 3}};
    EXPECT_EQ(job.spent()->epsilon, privacy::spent(privacy::Accountant::prv, three, 1e-5).epsilon);
    EXPECT_NE(fault([&] { job.add_noise(); }).find("add_noise() is for rehearsals"), std::string::npos);
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

// gradients() gives a sum without noise: nothing is updated with it, so every update is one that spent() counts.
TEST(Job, UpdatesNoWeightsWithoutNoise) {
  for (const bool rehearsal : {false, true}) {
    auto world = comm::World::simulated(0, 1);
    Parts parts;
    auto options = parts.private_options();
    options.step.noise_seed.reset();
    options.step.rehearsal = rehearsal;
    options.micro_batch = 3;
    Job* made = nullptr;
    const auto update = [&] {
      auto slots = slots_of(made->runtime().shards());
      for (auto& slot : slots) slot.gradient = slot.gradient.to(at::kFloat);  // sums are fp64
      return fault([&] { made->optimizer().step(slots, 0.1); });
    };
    std::vector<std::string> in_hooks;
    options.step.stop = [&] {
      in_hooks.push_back(update());
      return false;
    };
    options.step.before_noise = [&](int64_t, const hash::Digest&) { in_hooks.push_back(update()); };
    Job job(world, options);
    made = &job;
    const std::vector<int64_t> records{0, 1, 2};
    const auto batch = parts.data.batch(records);
    const auto refused = [&](const std::string& said) {
      return said.find("a sum without noise") != said.npos ? !rehearsal : rehearsal && said == "no error";
    };
    job.gradients({&batch, 1});
    EXPECT_PRED1(refused, update()) << "before the first step";
    job.step();
    EXPECT_EQ(in_hooks.size(), 2u);
    for (const auto& said : in_hooks) EXPECT_PRED1(refused, said) << "during a step, before its noise";
    job.gradients({&batch, 1});
    EXPECT_PRED1(refused, update()) << "after a step";
    if (!rehearsal) EXPECT_EQ(job.steps(), 1);
    if (!rehearsal) EXPECT_TRUE(job.spent());
  }
}

TEST(Job, EndsNoLaterThanItsOptionsSay) {
  auto world = comm::World::simulated(0, 1);
  Parts parts;
  Job job(world, parts.private_options());
  EXPECT_EQ(fault([&] { job.end_at(7); }), "an end after 7 steps; expected 1 to 6, the number of steps in the options");
  EXPECT_NE(fault([&] { job.end_at(0); }), "no error");
  job.end_at(2);
  while (job.step()) {
  }
  EXPECT_EQ(job.steps(), 2);
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
    options.step.noise_seed.reset();
    options.folder = folder.string();
    int64_t released = 0;
    options.step.before_noise = [&](int64_t, const hash::Digest&) { ++released; };
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
      options.step.noise_seed.reset();
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
            "the ledger has earlier steps that no accountant supports");
  EXPECT_EQ(why_after([](Parts&, JobOptions& o) { o.step.noise_seed = 7; }),
            "the ledger has earlier steps whose noise had a seed");
  EXPECT_EQ(why_after([](Parts& parts, JobOptions& o) {
              parts.data.is = data::SampleUnit::window;
              o.step.privacy->unit = privacy::PrivacyUnit::window;
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
    options.step.noise_seed.reset();
    options.folder = folder.string();
    EXPECT_NE(fault([&] { const Job job(world, options); }).find("of a run that may go on"), std::string::npos);
    EXPECT_EQ(std::filesystem::exists(folder / "key"), key);
    EXPECT_FALSE(std::filesystem::exists(folder / "ledger"));
  }
}

}  // namespace
}  // namespace shade::train
