#include "shade/cli/memory.h"

#include <gtest/gtest.h>

#include <thread>

#include "shade/base/span.h"
#include "shade/plan/dry_run.h"
#include "shade/profile/memory.h"
#include "tests/support/fault.h"

namespace shade::cli {
namespace {

measure::Experiment llama() {
  measure::Experiment out;
  out.model.model = "llama-nano";
  out.work.seq_length = 64;
  return out;
}

TEST(MemoryWarning, StatesThePlansPeak) {
  const auto warning = memory_warning({.experiment = llama(), .limit = KiB(512)});
  const auto enough = memory_warning({.experiment = llama(), .limit = MiB(1)});
  EXPECT_EQ(profile::TensorMemory::peak().count, 0) << "the dry run counts in its own book";
  const auto peak = plan::dry_run(llama(), {}).peak.total;
  EXPECT_NE(warning.find(text("a rank needs ", to_string(peak), " of tensors, and has 512 KiB; largest part: ")),
            std::string::npos)
      << warning;
  EXPECT_NE(warning.find(" needs less"), std::string::npos) << warning;
  EXPECT_EQ(enough, "") << to_string(peak);
}

TEST(MemoryWarning, IsSilentWhereNothingCanBeSaid) {
  auto halves = llama();
  halves.shard.shard = catalog::Strategy::hsdp;
  EXPECT_EQ(memory_warning({.experiment = halves, .ranks = 3, .limit = KiB(512)}), "") << "3 ranks are not two halves";
  auto unknown = llama();
  unknown.model.model = "no such model";
  EXPECT_EQ(memory_warning({.experiment = unknown, .limit = KiB(512)}), "");
  auto part = llama();
  part.bench.work = measure::Work::forward_backward;
  EXPECT_EQ(memory_warning({.experiment = part, .limit = KiB(512)}), "");
}

TEST(MemoryWarning, ReadsARecipe) {
  train::Recipe recipe;
  recipe.work.batch_size = 10;
  recipe.work.seq_length = 77;
  recipe.work.micro_batch = "auto";
  auto found = experiment_of(recipe, 4).value();
  EXPECT_EQ(found.work.seq_length, 77);
  EXPECT_EQ(found.bench.batch_size, 1) << "to be chosen: one sample at least";
  EXPECT_EQ(found.bench.grad_accum, 2);
  recipe.work.micro_batch = "3";
  found = experiment_of(recipe, 4).value();
  EXPECT_EQ(found.bench.batch_size, 3);
  EXPECT_EQ(found.bench.grad_accum, 1) << "a rank has three of ten";
  recipe.work.micro_batch = "64";
  EXPECT_EQ(experiment_of(recipe, 1)->bench.batch_size, 10);
  recipe.budget.privacy_unit = privacy::PrivacyUnit::user;
  EXPECT_FALSE(experiment_of(recipe, 1));
}

// Each counts its own memory, spans and work, and none of the process's.
TEST(DryRun, SeveralAtOnceAreWhatEachIsAlone) {
  auto small = llama();
  small.shard.shard = catalog::Strategy::zero3;
  auto large = small;
  large.dp.dp = privacy::MethodName::automatic;
  large.work.seq_length = 96;
  const plan::DryRunOptions cpu{.ranks = 2}, gpu{.ranks = 8, .accelerator = GiB(1), .capacity = GiB(1)};
  const auto of = [](const plan::StepRecord& record) { return plan::to_json(record).dump(); };
  const std::vector<std::string> alone{of(plan::dry_run(small, cpu)), of(plan::dry_run(large, gpu))};
  std::vector<std::string> together(2);
  profile::TensorMemory::reset_peak();
  const auto before = profile::TensorMemory::current();
  {
    std::vector<std::jthread> threads;
    threads.emplace_back([&] { together[0] = of(plan::dry_run(small, cpu)); });
    threads.emplace_back([&] { together[1] = of(plan::dry_run(large, gpu)); });
  }
  EXPECT_EQ(together, alone);
  EXPECT_NE(alone[0], alone[1]);
  EXPECT_EQ(profile::TensorMemory::peak(), before);
  EXPECT_EQ(Span::phase(), SpanName::other);
}

TEST(DryRun, IsGivenUpAfterAWhile) {
  EXPECT_NE(test::fault<Error>([] { plan::dry_run(llama(), {.patience = Seconds(1e-6)}); }).find("takes too long"),
            std::string::npos);
  EXPECT_GT(plan::dry_run(llama(), {}).peak.total.count, 0) << "nothing of it is left";
}

}  // namespace
}  // namespace shade::cli
