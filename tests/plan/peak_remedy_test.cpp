#include "shade/plan/peak_remedy.h"

#include <gtest/gtest.h>

namespace shade::plan {
namespace {

StepRecord record(std::initializer_list<std::pair<MemoryKind, int64_t>> gibibytes, int ranks = 1) {
  StepRecord out{.ranks = ranks};
  for (const auto& [kind, size] : gibibytes) {
    out.peak.of(kind) = GiB(size);
    out.peak.total += GiB(size);
  }
  return out;
}

TEST(PeakRemedy, NamesTheLargestPart) {
  EXPECT_EQ(largest_part(record({{MemoryKind::kept, 3}, {MemoryKind::optimizer, 1}})),
            "3.00 GiB of kept for private step (75 %)");
}

TEST(PeakRemedy, GoesOnWhereAnOptionIsInUse) {
  measure::Experiment experiment;
  experiment.bench.batch_size = 2;
  const auto activations = record({{MemoryKind::activations, 3}, {MemoryKind::parameters, 1}});
  EXPECT_EQ(peak_remedy(activations, experiment), "--checkpointing block");
  experiment.model.checkpointing = models::Checkpointing::block;
  EXPECT_EQ(peak_remedy(activations, experiment), "a smaller --batch-size");
  experiment.bench.batch_size = 1;
  EXPECT_EQ(peak_remedy(activations, experiment), "a shorter --seq-length");
}

TEST(PeakRemedy, FollowsTheStrategy) {
  measure::Experiment experiment;
  const auto states = record({{MemoryKind::optimizer, 3}}, 2);
  experiment.shard.shard = catalog::Strategy::ddp;
  EXPECT_EQ(peak_remedy(states, experiment), "--shard zero3");
  experiment.shard.shard = catalog::Strategy::zero3;
  EXPECT_EQ(peak_remedy(states, experiment), "--offload");
  EXPECT_EQ(peak_remedy(record({{MemoryKind::optimizer, 3}}, 1), experiment), "--offload") << "one rank shards nothing";
}

TEST(PeakRemedy, TakesTheNextPartWhereNothingHelps) {
  measure::Experiment experiment;
  experiment.dp.dp = catalog::MethodName::ghost;
  experiment.dp.clip.norm_algorithm = privacy::NormAlgorithm::instantiate;
  EXPECT_EQ(peak_remedy(record({{MemoryKind::gram, 3}, {MemoryKind::activations, 1}}), experiment),
            "--checkpointing block");
  EXPECT_EQ(peak_remedy(record({{MemoryKind::gram, 3}}), experiment), "");
}

}  // namespace
}  // namespace shade::plan
