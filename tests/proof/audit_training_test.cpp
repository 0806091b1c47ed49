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
  what.model.model = "linear-nano";
  what.audit.kind = kind;
  what.audit.fault = fault;
  what.work.batch_size = 2;
  what.audit.trainings = 30;
  what.work.steps = 4;
  what.audit.confidence = 0.95;
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

// Few trainings: a verdict needs more of them, and large faults don't.
TEST(AuditTraining, FindsFaults) {
  const auto right = trainings(small(AuditKind::training));
  EXPECT_EQ(right.verdict(), Verdict::nothing) << right.json().dump();
  EXPECT_NEAR(right.shortest, 1, 1e-3);
  EXPECT_NEAR(right.longest, 1, 1e-3);
  EXPECT_LE(right.longest, 1);
  auto no_clip = trainings(small(AuditKind::training, AuditFault::no_clip));
  EXPECT_TRUE(no_clip.excluded) << no_clip.json().dump();
  EXPECT_GT(no_clip.longest, 10);
  const auto reused = trainings(small(AuditKind::training, AuditFault::reused_noise));
  EXPECT_TRUE(reused.excluded) << reused.json().dump();
  EXPECT_EQ(reused.found_by, "spread");
}

TEST(AuditTraining, FindsMissingSamplingAndNoise) {
  auto what = small(AuditKind::training, AuditFault::no_sampling);
  what.budget.sample_rate = 0.2;
  what.audit.trainings = 60;
  const auto all = trainings(what);
  EXPECT_TRUE(all.excluded) << all.json().dump();
  EXPECT_EQ(all.found_by, "likelihood");
  what = small(AuditKind::training);
  what.budget.sample_rate = 1;
  what.audit.trainings = 100;
  what.dp.sigma = 2;
  what.audit.fault = AuditFault::half_noise;
  const auto half = trainings(what);
  EXPECT_TRUE(half.excluded) << half.json().dump();
  EXPECT_GT(half.lower_epsilon, half.claimed_epsilon);
  EXPECT_EQ(half.found_by, "likelihood");
}

TEST(AuditTraining, FindsAWrongUnit) {
  auto what = small(AuditKind::training);
  what.budget.max_records_per_user = 4;
  const auto right = trainings(what);
  EXPECT_EQ(right.unit, "user");
  EXPECT_FALSE(right.excluded) << right.json().dump();
  EXPECT_NEAR(right.longest, 1, 1e-3);
  what.audit.fault = AuditFault::clip_records;
  const auto wrong = trainings(what);
  EXPECT_TRUE(wrong.excluded) << wrong.json().dump();
  EXPECT_NEAR(wrong.longest, 4, 0.01);
}

TEST(AuditTraining, FindsRanksWithoutNoise) {
  auto what = small(AuditKind::training, AuditFault::rank0_noise);
  what.audit.trainings = 20;
  const auto wrong = trainings(what, 2);
  EXPECT_TRUE(wrong.excluded) << wrong.json().dump();
  EXPECT_EQ(wrong.found_by, "last_rank");
}

// Adapters in bf16, with a key from the operating system: too few trainings for a verdict, but all is as it should be.
TEST(AuditTraining, OfAdaptersInBf16) {
  Audit what;
  what.audit.kind = AuditKind::training;
  what.audit.trainings = 20;
  what.work.steps = 2;
  what.model.lora_rank = 4;
  what.model.dtype = train::ComputeType::bf16;
  what.dp.max_grad_norm = 0.001;
  const auto found = trainings(what);
  EXPECT_GT(found.shortest, 0.98);
  EXPECT_LE(found.longest, 1) << "rounding has its margin below the clip norm";
  EXPECT_FALSE(found.excluded) << found.json().dump();
}

// A canary above the clip norm refutes the claim, however little; the rules don't follow from what was observed.
TEST(AuditTraining, ACanaryIsAtMostOneClipNorm) {
  const auto with = [](double shortest, double longest) {
    TrainingAuditResult out{
        .delta = 1e-5, .confidence = 0.95, .shortest = shortest, .longest = longest, .claimed_epsilon = 4};
    out.half_visible = true;
    return out;
  };
  EXPECT_EQ(with(1, 1).verdict(), Verdict::stands);
  EXPECT_EQ(with(1, 1.0000001).verdict(), Verdict::wrong);
  EXPECT_EQ(with(1, 1.0000001).why(), "one record moved a sum by 1.0000001 clip norms");
  EXPECT_EQ(with(0.89, 1).verdict(), Verdict::nothing);
  const privacy::Steps claimed{{.sample_rate = 0.5, .noise_multiplier = 1}, 4};
  std::vector<Observations> without, seen;
  for (int i = 0; i < 200; ++i) {
    without.push_back({.all = {0.01 * i - 1, 0, 0.4, -0.3}});
    seen.push_back({.all = {0.01 * i - 1, 1.1, 0.7, -0.2}});
  }
  std::vector<int64_t> alarms, misses;
  for (const double shortest : {0.2, 0.9, 1.0}) {
    auto result = with(shortest, 1);
    judge(result, claimed, without, seen);
    alarms.push_back(result.rules.at(0).false_alarms);
    misses.push_back(result.rules.at(0).misses);
  }
  for (size_t i = 1; i < alarms.size(); ++i) {
    EXPECT_EQ(alarms[i], alarms[0]);
    EXPECT_EQ(misses[i], misses[0]);
  }
}

TEST(AuditTraining, RefusesWhatIsNoFault) {
  EXPECT_THROW(require_auditable(small(AuditKind::training, AuditFault::rank0_noise), 1), UsageError);
  EXPECT_NO_THROW(require_auditable(small(AuditKind::training, AuditFault::rank0_noise), 2));
  EXPECT_THROW(require_auditable(small(AuditKind::training, AuditFault::clip_records), 1), UsageError);
  EXPECT_THROW(require_auditable(small(AuditKind::step, AuditFault::reused_noise), 1), UsageError);
  auto all = small(AuditKind::training, AuditFault::no_sampling);
  EXPECT_NO_THROW(require_auditable(all, 1));
  all.budget.sample_rate = 1;
  EXPECT_THROW(require_auditable(all, 1), UsageError);
}

TEST(AuditCanaries, OneTrainingFindsMissingClipping) {
  auto what = small(AuditKind::one_run);
  what.audit.canaries = 300;
  what.work.steps = 2;
  what.budget.sample_rate = 1;
  what.dp.sigma = 4;
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

// With next to no noise the losses tell.
TEST(AuditCanaries, LossesOfAModelAreSeenAlone) {
  Audit what;
  what.audit.kind = AuditKind::model;
  what.model.task = models::Task::lm;
  what.audit.canaries = 60;
  what.work.steps = 2;
  what.budget.sample_rate = 1;
  what.audit.confidence = 0.95;
  what.dp.sigma = 0.1;
  what.dp.max_grad_norm = 0.1;
  what.dp.noise_seed = 3;
  const auto found = canaries(what);
  EXPECT_GT(found.bound.guesses.right * 10, found.bound.guesses.made * 6) << found.json().dump();
  EXPECT_GT(found.bound.epsilon, 0);
  EXPECT_EQ(found.verdict(), Verdict::nothing) << "so much is claimed that no guesses refute it";
}

}  // namespace
}  // namespace shade::proof
