// What a job refuses: methods that bound less than they should, options that weaken it, ranks that differ.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/fault.h"
#include "tests/support/ranks.h"
#include "tests/train/job_parts.h"
#include "tests/train/own_method.h"

namespace shade::train {
namespace {

using privacy::MethodName;
using test::fault;

TEST(Job, RefusesAMethodThatForgetsAWeight) {
  const auto said = [](const privacy::MakeMethod& method) {
    auto world = comm::World::simulated(0, 1);
    return fault([&] { trained(world, [&](JobOptions& options) { options.step.method = method; }); });
  };
  EXPECT_EQ(said(own_method({.forgets = "layers.0.weight"})),
            "the clipping method wrote no gradient of weight layers.0.weight in a private step; every trainable weight "
            "needs one (sink.buffer and mark_written), or freeze it");
  EXPECT_NE(said(own_method({.says_complete = false})).find("gradient of weight layers.0.weight is complete"),
            std::string::npos);
  EXPECT_NE(said(privacy::method_of(MethodName::none)).find("a method that bounds no sample"), std::string::npos);
}

// One fact: the event says it, and JobOptions may leave it out.
TEST(Job, ABatchIsTheDivisorOfItsEvent) {
  const auto said = [](int64_t batch_size) {
    auto world = comm::World::simulated(0, 1);
    return fault([&] { trained(world, [&](JobOptions& options) { options.batch_size = batch_size; }); });
  };
  EXPECT_EQ(said(0), "no error");
  EXPECT_EQ(said(std::llround(event().divisor)), "no error");
  EXPECT_NE(said(std::llround(event().divisor) + 1).find("both are the expected batch"), std::string::npos);
}

// Its noise would be another than the one that is accounted for.
TEST(Job, RefusesAMethodMadeForAnotherEvent) {
  const auto said = [](double sigma, double clip_norm) {
    auto other = event();
    other.mechanism.noise_multiplier = sigma;
    other.clip_norm = clip_norm;
    auto world = comm::World::simulated(0, 1);
    return fault(
        [&] { trained(world, [&](JobOptions& options) { options.step.method = own_method({.event = other}); }); });
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
    return fault([&] { trained(world, [&](JobOptions& options) { options.step.method = own_method(faults); }); });
  };
  EXPECT_EQ(
      said({.unmeasured = "layers.1.weight"}),
      "weight layers.1.weight was reported 1 times, and the clipping method added norms of it 0 times, so "
      "samples would be clipped by less than their gradients; call add_norms (clip/layer_norms.h) for each layer");
  EXPECT_NE(said({.weighs_early = true}).find("no layer reported its gradient in this pass"), std::string::npos);
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
  EXPECT_NE(said([](Parts&, JobOptions& o) { o.step.privacy->mechanism.noise_multiplier = 0; }).find("sigma 0"),
            std::string::npos);
  EXPECT_NE(said([](Parts&, JobOptions& o) {
              o.step.privacy->mechanism.sampler = privacy::Sampler::shuffled;
            }).find("no accountant supports shuffled batches"),
            std::string::npos);
  EXPECT_NE(said([](Parts&, JobOptions& o) {
              o.folder = "run";
              o.step.rehearsal = true;
            }).find("a rehearsal has no ledger"),
            std::string::npos);
  EXPECT_NE(said([](Parts&, JobOptions&) {}, /*steps=*/true).find("batches from outside in a private job"),
            std::string::npos);
  EXPECT_NE(said(
                [](Parts&, JobOptions& o) {
                  o.step.privacy.reset();
                  o.step.method = own_method();
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
  const auto split = [&](const HeldOut& held_out) {
    return said([&](Parts&, JobOptions& options) { options.split = held_out; });
  };
  EXPECT_EQ(split(HeldOut::by_content(Doubles(), 0.2)), "no error");
  EXPECT_EQ(split(HeldOut::by_position(kRecords, 0)), "no error");
  EXPECT_NE(split(HeldOut::by_position(kRecords, 5)).find("held out by position"), std::string::npos);
  EXPECT_NE(split(HeldOut::behind(kRecords, 5, "")).find("held out by position"), std::string::npos);
  EXPECT_NE(split(HeldOut::by_position(30, 0)).find("the split is of 30 records, the data set has 40"),
            std::string::npos);
  const auto units = [&](data::SampleUnit sample, privacy::PrivacyUnit unit) {
    return said([&](Parts& parts, JobOptions& options) {
      parts.data.is = sample;
      options.step.privacy->unit = unit;
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
  EXPECT_EQ(said([](JobOptions& o) { o.step.privacy->mechanism.noise_multiplier = 2; }),
            "comparing the job's options with rank 0's failed on rank 1: privacy/sigma is 2.0, rank 0 has 1.0; give "
            "every rank the same JobOptions");
  EXPECT_NE(said([](JobOptions& o) { o.optimizer.lr = 0.2; }).find("rank 1: optimizer/lr is 0.2, rank 0 has 0.1"),
            std::string::npos);
  EXPECT_NE(said([](JobOptions& o) {
              o.step.method = privacy::method_of(MethodName::automatic, {.style = privacy::ClipStyle::automatic});
            }).find("rank 1: clip/style is \"automatic\", rank 0 has \"flat\""),
            std::string::npos);
}

// A rank that rounds differently would make another term of a record that is dealt to it because of somebody else's.
TEST(Job, RefusesRanksThatComputeDifferently) {
  test::run_ranks(2, test::As::processes, [&](comm::World& world) {
    at::set_num_threads(1 + world.rank());  // of a process
    const shard::ShardConfig ddp{.shard = shard::Strategy::ddp};
    const auto groups = shard::connect_groups(world, shard::policy_of(ddp, world.size()));
    const auto said = [&](bool rehearsal, bool is_private) {
      return fault([&] {
        trained(world, [&](JobOptions& options) {
          options.shard = ddp;
          options.groups = groups;
          options.step.rehearsal = rehearsal;
          if (!is_private) options.step.privacy.reset(), options.step.method = {};
        });
      });
    };
    const auto differ = said(false, true);
    EXPECT_NE(differ.find("rank 1: threads is 2, rank 0 has 1; give every rank the same program"), std::string::npos)
        << differ;
    EXPECT_EQ(said(true, true), "no error");
    EXPECT_EQ(said(false, false), "no error");
  });
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

}  // namespace
}  // namespace shade::train
