// Audits of whole trainings by the program's own job: a right one passes, and planted faults don't.
#include "shade/proof/audit_training.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "shade/base/error.h"
#include "shade/proof/audit_canaries.h"
#include "tests/support/ranks.h"

namespace shade::proof {
namespace {

Audit small(AuditKind kind, AuditFault fault = AuditFault::none) {
  Audit what;
  what.audit.model = "linear-nano";
  what.audit.kind = kind;
  what.audit.fault = fault;
  what.audit.batch_size = 3;
  what.audit.trainings = 60;
  what.audit.confidence = 0.99;
  what.dp.max_grad_norm = 0.01;
  what.dp.noise_seed = 3;  // what a test finds, it finds again
  return what;
}

TrainingAuditResult trainings(const Audit& what, int ranks = 1) {
  TrainingAuditResult out;
  test::run_ranks(ranks, test::As::threads, [&](comm::World& world) {
    at::set_num_threads(1);
    auto own = what;
    own.shard.shard = ranks == 1 ? shard::Strategy::none : shard::Strategy::zero3;
    const auto found = audit_training(world, own);
    if (world.rank() == 0) out = found;
  });
  return out;
}

CanaryAuditResult canaries(const Audit& what) {
  CanaryAuditResult out;
  test::run_ranks(1, test::As::threads, [&](comm::World& world) {
    at::set_num_threads(1);
    out = audit_canaries(world, what);
  });
  return out;
}

TEST(AuditTraining, StandsAndFindsFaults) {
  const auto right = trainings(small(AuditKind::training));
  EXPECT_EQ(right.verdict(), Verdict::stands) << right.json().dump();
  EXPECT_NEAR(right.shortest, 1, 1e-3);
  EXPECT_NEAR(right.longest, 1, 1e-3);
  EXPECT_GT(right.lower_epsilon, 0.5) << "an audit that finds nothing shows nothing";
  for (const auto fault : {AuditFault::half_noise, AuditFault::no_clip, AuditFault::no_sampling}) {
    const auto wrong = trainings(small(AuditKind::training, fault));
    EXPECT_TRUE(wrong.excluded) << to_string(fault) << " " << wrong.json().dump();
    EXPECT_EQ(wrong.found_by, "likelihood") << to_string(fault);
    EXPECT_EQ(wrong.verdict(), Verdict::wrong);
  }
  const auto reused = trainings(small(AuditKind::training, AuditFault::reused_noise));
  EXPECT_TRUE(reused.excluded) << reused.json().dump();
  EXPECT_EQ(reused.found_by, "spread");
}

TEST(AuditTraining, FindsAWrongUnit) {
  auto what = small(AuditKind::training);
  what.audit.max_records_per_user = 4;
  const auto right = trainings(what);
  EXPECT_EQ(right.unit, "user");
  EXPECT_EQ(right.verdict(), Verdict::stands) << right.json().dump();
  what.audit.fault = AuditFault::clip_records;
  const auto wrong = trainings(what);
  EXPECT_TRUE(wrong.excluded) << wrong.json().dump();
  EXPECT_NEAR(wrong.longest, 4, 0.01);
}

TEST(AuditTraining, FindsRanksWithoutNoise) {
  auto what = small(AuditKind::training);
  const auto right = trainings(what, 2);
  EXPECT_EQ(right.verdict(), Verdict::stands) << right.json().dump();
  what.audit.fault = AuditFault::rank0_noise;
  const auto wrong = trainings(what, 2);
  EXPECT_TRUE(wrong.excluded) << wrong.json().dump();
  EXPECT_EQ(wrong.found_by, "last_rank");
}

// Adapters in bf16, with a key from the operating system: too few trainings for a verdict, but all is as it should be.
TEST(AuditTraining, OfAdaptersInBf16) {
  Audit what;
  what.audit.kind = AuditKind::training;
  what.audit.trainings = 20;
  what.audit.lora_rank = 4;
  what.audit.dtype = train::ComputeType::bf16;
  what.dp.max_grad_norm = 0.001;
  const auto found = trainings(what);
  EXPECT_GT(found.shortest, 0.98);
  EXPECT_LT(found.longest, 1.001);
  EXPECT_FALSE(found.excluded) << found.json().dump();
}

TEST(AuditTraining, RefusesWhatIsNoFault) {
  EXPECT_THROW(trainings(small(AuditKind::training, AuditFault::rank0_noise)), UsageError);
  EXPECT_THROW(trainings(small(AuditKind::training, AuditFault::clip_records)), UsageError);
  auto all = small(AuditKind::training, AuditFault::no_sampling);
  all.audit.sample_rate = 1;
  EXPECT_THROW(trainings(all), UsageError);
}

TEST(AuditCanaries, OneTrainingFindsMissingClipping) {
  auto what = small(AuditKind::one_run);
  what.audit.canaries = 300;
  what.audit.steps = 2;
  what.audit.sample_rate = 1;
  what.dp.sigma = 2;
  const auto right = canaries(what);
  EXPECT_EQ(right.verdict(), Verdict::not_refuted) << right.json().dump();
  EXPECT_GT(right.bound.guesses.right * 2, right.bound.guesses.made) << "the observer sees something";
  EXPECT_EQ(right.bound.guesses.canaries, 300);
  what.audit.fault = AuditFault::no_clip;
  const auto wrong = canaries(what);
  EXPECT_EQ(wrong.verdict(), Verdict::wrong) << wrong.json().dump();
}

TEST(AuditCanaries, FewCanariesShowNothing) {
  auto what = small(AuditKind::one_run);
  what.audit.canaries = 12;
  const auto few = canaries(what);
  EXPECT_EQ(few.verdict(), Verdict::nothing);
  EXPECT_NE(few.why().find("raise --canaries"), std::string::npos) << few.why();
}

TEST(AuditCanaries, LossesOfAModelAreSeenAlone) {
  auto what = small(AuditKind::model);
  what.audit.canaries = 200;
  what.audit.steps = 2;
  what.audit.sample_rate = 1;
  what.dp.sigma = 2;
  EXPECT_EQ(canaries(what).verdict(), Verdict::not_refuted);
  what.audit.fault = AuditFault::no_clip;
  const auto wrong = canaries(what);
  EXPECT_GT(wrong.bound.guesses.right * 10, wrong.bound.guesses.made * 6) << wrong.json().dump();
}

}  // namespace
}  // namespace shade::proof
