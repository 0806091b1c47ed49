// The audit lets the right step pass, and none of the broken ones.
#include "shade/proof/audit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/ranks.h"

namespace shade::proof {
namespace {

AuditResult audited(int ranks, shard::Strategy strategy, AuditFault fault, int64_t runs, int64_t seed = 1) {
  AuditResult out;
  test::run_ranks(ranks, test::As::threads, [&](comm::World& world) {
    Audit what;
    what.model.task = models::Task::lm;
    what.audit.runs = runs;
    what.audit.fault = fault;
    what.work.seed = seed;
    what.shard.shard = strategy;
    const auto found = audit(world, what);
    if (world.rank() == 0) out = found;
  });
  return out;
}

TEST(Audit, BoundsAreThoseOfTheBinomial) {
  EXPECT_NEAR(upper_rate(0, 10, 0.95), 1 - std::pow(0.05, 0.1), 1e-9);
  EXPECT_NEAR(upper_rate(50, 100, 0.975), 0.6017, 1e-4);
  EXPECT_EQ(upper_rate(10, 10, 0.95), 1);
}

TEST(Audit, AShortCanaryShowsNothing) {
  const auto verdict = [](double canary, double lower, double visible) {
    return AuditResult{.canary = canary, .claimed_epsilon = 4, .lower_epsilon = lower, .visible_epsilon = visible}
        .verdict();
  };
  EXPECT_EQ(verdict(1, 3, 6), Verdict::stands);
  EXPECT_EQ(verdict(1, 5, 6), Verdict::wrong);
  EXPECT_EQ(verdict(0.4, 3, 6), Verdict::nothing);
  EXPECT_EQ(verdict(1, 3, 3.9), Verdict::nothing) << "half the noise would not be seen";
  EXPECT_EQ(verdict(2, 3, 6), Verdict::wrong) << "no statistics are needed";
  EXPECT_EQ(verdict(1.0000001, 3, 6), Verdict::wrong) << "there is no tolerance";
}

// What too few runs can't find is not called right.
TEST(Audit, TooFewRunsShowNothing) {
  const auto few = audited(1, shard::Strategy::none, AuditFault::none, 100);
  EXPECT_EQ(few.verdict(), Verdict::nothing) << few.json();
  EXPECT_NE(few.why().find("raise --runs"), std::string::npos) << few.why();
  for (int64_t seed = 1; seed <= 5; ++seed)
    EXPECT_FALSE(audited(1, shard::Strategy::none, AuditFault::half_noise, 100, seed).pass()) << seed;
}

// The fewest runs that may pass find half the noise whatever the draw.
TEST(Audit, RunsThatSufficeMissNothing) {
  int64_t runs = 100;
  while (audited(1, shard::Strategy::none, AuditFault::none, runs).verdict() == Verdict::nothing) runs += 20;
  EXPECT_GT(runs, 105) << "where half the noise passed in 40 of 100 audits";
  EXPECT_LT(runs, 1000);
  for (int64_t seed = 1; seed <= 30; ++seed)
    EXPECT_EQ(audited(1, shard::Strategy::none, AuditFault::half_noise, runs, seed).verdict(), Verdict::wrong)
        << runs << " runs, seed " << seed;
}

TEST(Audit, ModelsWithoutTokensInBf16) {
  for (const auto* model : {"dit-nano", "linear-nano"})
    test::run_ranks(1, test::As::threads, [&](comm::World& world) {
      Audit what;
      what.model.model = model;
      what.model.dtype = train::ComputeType::bf16;
      what.audit.runs = 100;
      what.dp.max_grad_norm = 0.01;
      const auto canary = audit(world, what).canary;
      EXPECT_GE(canary, 0.9) << model;
      EXPECT_LE(canary, 1) << model;
    });
}

// A user of several records is one canary; clipped one by one, they move the sum by more than the clip norm.
TEST(Audit, AUserOfManyRecordsIsOneCanary) {
  const auto of_users = [](int ranks, AuditFault fault) {
    AuditResult out;
    test::run_ranks(ranks, test::As::threads, [&](comm::World& world) {
      Audit what;
      what.model.task = models::Task::lm;
      what.audit.runs = 2000;
      what.budget.max_records_per_user = 4;
      what.audit.fault = fault;
      what.dp.max_grad_norm = 0.1;  // the mean of records is shorter than each of them
      what.shard.shard = ranks == 1 ? shard::Strategy::none : shard::Strategy::zero3;
      const auto found = audit(world, what);
      if (world.rank() == 0) out = found;
    });
    return out;
  };
  for (const int ranks : {1, 2}) {
    const auto right = of_users(ranks, AuditFault::none);
    EXPECT_NEAR(right.canary, 1, 1e-4);
    EXPECT_TRUE(right.pass()) << right.json();
    const auto wrong = of_users(ranks, AuditFault::clip_records);
    EXPECT_GT(wrong.canary, 1.5);
    EXPECT_EQ(wrong.verdict(), Verdict::wrong);
    EXPECT_NE(wrong.why().find("one user moved the sum by"), std::string::npos) << wrong.why();
  }
}

// 2,000 runs of each world where ctest runs in every change; `shade audit` makes 20,000.
TEST(Audit, TheStepKeepsItsClaimAndBrokenOnesDont) {
  for (const auto& [ranks, strategy] : {std::pair{1, shard::Strategy::none}, {2, shard::Strategy::zero3}}) {
    const auto right = audited(ranks, strategy, AuditFault::none, 2000);
    EXPECT_NEAR(right.canary, 1, 1e-4) << "the canary is as long as it may be";
    EXPECT_LE(right.lower_mu, 1);
    EXPECT_GT(right.lower_mu, 0.7) << "an audit that finds nothing shows nothing";
    EXPECT_TRUE(right.pass());
    EXPECT_FALSE(audited(ranks, strategy, AuditFault::half_noise, 2000).pass());
    EXPECT_FALSE(audited(ranks, strategy, AuditFault::no_clip, 2000).pass());
  }
  EXPECT_FALSE(audited(2, shard::Strategy::zero3, AuditFault::rank0_noise, 4000).pass());
}

}  // namespace
}  // namespace shade::proof
