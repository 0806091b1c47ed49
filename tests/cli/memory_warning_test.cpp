#include "shade/cli/memory_warning.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "shade/plan/dry_run.h"
#include "shade/profile/memory.h"

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
  EXPECT_EQ(profile::TensorMemory::peak().count, 0) << "another process made the dry run";
  at::set_num_threads(1);  // as there: kernels have scratch memory for each thread
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

}  // namespace
}  // namespace shade::cli
