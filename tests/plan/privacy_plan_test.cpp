#include "shade/plan/privacy_plan.h"

#include <gtest/gtest.h>

#include <cmath>

#include "shade/accounting/accountant.h"
#include "shade/base/error.h"

namespace shade::plan {
namespace {

double epsilon_of(const PrivacyRow& row, double delta) {
  const privacy::Steps steps{{.sample_rate = row.sample_rate, .noise_multiplier = row.sigma}, row.steps};
  return privacy::spent(privacy::Accountant::prv, {&steps, 1}, delta).epsilon;
}

PrivacyQuestion ordinary() {
  return {.records = 50'000, .target_epsilon = 8, .delta = 1e-6, .batch = 1024, .steps = 1000};
}

TEST(PrivacyPlan, EveryRowKeepsTheTarget) {
  const auto plan = plan_privacy(ordinary());
  size_t chosen = 0;
  for (const auto* rows : {&plan.by_cost, &plan.same_cost})
    for (const auto& row : *rows) {
      SCOPED_TRACE(row.batch);
      EXPECT_LE(epsilon_of(row, 1e-6), 8);
      EXPECT_GE(epsilon_of(row, 1e-6), 8 * (1 - 3e-3));
      EXPECT_DOUBLE_EQ(row.ratio, row.sigma / static_cast<double>(row.batch));
      EXPECT_NEAR(row.sample_rate, static_cast<double>(row.batch) / 50'000, 1e-12);
      chosen += row.chosen ? 1 : 0;
    }
  EXPECT_EQ(chosen, 2U) << "once in each table";
  EXPECT_GE(epsilon_of(plan.chosen, 1e-6), 8 * (1 - 1e-4)) << "the plan's own row as calibrate finds it";
}

TEST(PrivacyPlan, LargerBatchesLowerTheRatioEverMoreSlowly) {
  const auto plan = plan_privacy(ordinary());
  ASSERT_GE(plan.by_cost.size(), 5U);
  double before = 2;
  for (size_t i = 1; i < plan.by_cost.size(); ++i) {
    const auto &fewer = plan.by_cost[i - 1], &more = plan.by_cost[i];
    const double gain = std::log(fewer.ratio / more.ratio) /
                        std::log(static_cast<double>(more.batch) / static_cast<double>(fewer.batch));
    EXPECT_GT(gain, 0);
    EXPECT_LT(gain, before + 0.02);
    EXPECT_EQ(more.beyond_knee, gain < 0.5);
    before = gain;
    EXPECT_GE(more.ratio, plan.floor * (1 - 1e-9));
  }
  for (size_t i = 1; i < plan.same_cost.size(); ++i) {
    EXPECT_GT(plan.same_cost[i].ratio, plan.same_cost[i - 1].ratio) << "more, smaller steps at the same cost";
    EXPECT_NEAR(plan.same_cost[i].records_read / plan.same_cost[0].records_read, 1, 0.01);
  }
}

TEST(PrivacyPlan, StepsAloneGetTheBatchOfTheKnee) {
  auto question = ordinary();
  question.batch = 0;
  question.ratio_doublings = 1;
  const auto plan = plan_privacy(question);
  EXPECT_FALSE(plan.chosen.beyond_knee);
  EXPECT_TRUE(plan.chosen.knee);
  EXPECT_FALSE(plan.by_cost.front().knee);
  EXPECT_TRUE(plan.by_cost.back().beyond_knee);
}

TEST(PrivacyPlan, CostOfHalfTheRatioHalvesIt) {
  auto question = ordinary();
  question.batch = 256;
  question.ratio_doublings = 0;
  const auto plan = plan_privacy(question);
  ASSERT_TRUE(plan.halving);
  EXPECT_GT(*plan.halving, 2) << "sigma grows with the batch";
  EXPECT_LT(*plan.halving, 4) << "before the knee";
  auto half = question;
  half.batch = std::llround(256 * *plan.halving);
  EXPECT_NEAR(plan_privacy(half).chosen.ratio / plan.chosen.ratio, 0.5, 0.02);
}

TEST(PrivacyPlan, RatioThatCantBeHalvedIsSaid) {
  auto question = ordinary();
  question.batch = 40'000;
  question.ratio_doublings = 1;
  const auto plan = plan_privacy(question);
  EXPECT_FALSE(plan.halving);
  EXPECT_EQ(plan.by_cost.back().batch, 50'000);
  EXPECT_NEAR(plan.by_cost.back().ratio, plan.floor, 1e-12);
  EXPECT_NE(plan.str().find("can't be halved"), std::string::npos) << plan.str();
  EXPECT_TRUE(plan.json()["cost_of_half_ratio"].is_null());
}

TEST(PrivacyPlan, BudgetIsSpentAndNotExceeded) {
  PrivacyQuestion question{.records = 100'000,
                           .target_epsilon = 4,
                           .delta = 1e-6,
                           .steps = 500,
                           .budget_gpu_hours = 10,
                           .length = 128,
                           .flops_per_record = 1e12,
                           .flops_per_gpu_second = 1e14,
                           .ratio_doublings = 1};
  // 10 h at 100 records a second: 3.6e6 records, 7,200 a step.
  auto plan = plan_privacy(question);
  EXPECT_EQ(plan.chosen.batch, 7200);
  EXPECT_NEAR(plan.chosen.gpu_hours, 10, 1e-9);
  question.steps = 0;
  question.batch = 3000;
  EXPECT_EQ(plan_privacy(question).chosen.steps, 1200);
  question.batch = 0;
  plan = plan_privacy(question);
  EXPECT_GE(plan.chosen.steps, 1000) << "practice";
  EXPECT_FALSE(plan.chosen.beyond_knee);
  EXPECT_LE(plan.chosen.gpu_hours, 10);
  EXPECT_GT(plan.chosen.gpu_hours, 9.9);
  question.budget_gpu_hours = 0;
  question.budget_flops = 3.6e18;
  EXPECT_EQ(plan_privacy(question).chosen.batch, plan.chosen.batch) << "the same budget in FLOPs";
}

TEST(PrivacyPlan, SaysWhatIsLawAndWhatIsPractice) {
  auto question = ordinary();
  question.ratio_doublings = 0;
  question.delta = 1e-4;
  const auto plan = plan_privacy(question);
  const auto words = plan.str();
  for (const auto* part : {"Law", "Practice", "add or remove one record", "noise-batch ratio", "not below 1 / records"})
    EXPECT_NE(words.find(part), std::string::npos) << part << " in\n" << words;
  const auto json = plan.json();
  EXPECT_EQ(json["plan"]["batch"], 1024);
  EXPECT_FALSE(json["law"].empty());
  EXPECT_FALSE(json["practice"].empty());
}

TEST(PrivacyPlan, RefusesWhatHasNoAnswer) {
  const auto refuses = [](auto change) {
    auto question = ordinary();
    change(question);
    EXPECT_THROW(plan_privacy(question), UsageError);
  };
  refuses([](auto& q) { q.records = 0; });
  refuses([](auto& q) { q.batch = 60'000; });
  refuses([](auto& q) { q.target_epsilon = 0; });
  refuses([](auto& q) { q.delta = 0; });
  refuses([](auto& q) { q.steps = 0; });
  refuses([](auto& q) { q.budget_flops = 1e18; });
  refuses([](auto& q) { q.batch = 0, q.steps = 0, q.budget_gpu_hours = 1, q.flops_per_record = 1; });
  refuses([](auto& q) { q.batch = 0, q.budget_flops = 1, q.budget_gpu_hours = 1; });
}

// VaultGemma 1B: epsilon of its batch, noise and steps, and what a plan for that epsilon finds.
TEST(PrivacyPlan, LargestPublishedRunHasItsFigures) {
  const auto& run = largest_published_run();
  const PrivacyRow row{.steps = run.steps,
                       .sample_rate = static_cast<double>(run.batch) / static_cast<double>(run.records),
                       .sigma = run.sigma};
  const double epsilon = epsilon_of(row, run.delta);
  EXPECT_NEAR(epsilon, 2.0695, 5e-4);
  EXPECT_NEAR(run.ratio(), 1.185e-6, 1e-9);
  EXPECT_NEAR(run.flops_per_record() * static_cast<double>(run.batch) * static_cast<double>(run.steps), 3.3e23,
              0.02e23);
}

}  // namespace
}  // namespace shade::plan
