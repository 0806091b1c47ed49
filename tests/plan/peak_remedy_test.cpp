#include "shade/plan/step_record.h"

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
  const auto activations = record({{MemoryKind::activations, 3}, {MemoryKind::parameters, 1}});
  Json options{{"model", {{"checkpointing", "none"}}}, {"bench", {{"batch_size", 2}}}};
  EXPECT_EQ(peak_remedy(activations, options), "--checkpointing block");
  options["model"]["checkpointing"] = "block";
  EXPECT_EQ(peak_remedy(activations, options), "a smaller --batch-size with --grad-accum for the same total");
  options["bench"]["batch_size"] = 1;
  EXPECT_EQ(peak_remedy(activations, options), "a shorter --seq-length");
}

TEST(PeakRemedy, FollowsTheStrategy) {
  const auto states = record({{MemoryKind::optimizer, 3}}, 2);
  EXPECT_EQ(peak_remedy(states, {{"shard", {{"shard", "ddp"}}}}), "--shard zero3");
  EXPECT_EQ(peak_remedy(states, {{"shard", {{"shard", "FULL_SHARD"}}}}), "--offload") << "by any of its names";
  EXPECT_EQ(peak_remedy(record({{MemoryKind::optimizer, 3}}, 1), {{"shard", {{"shard", "none"}}}}), "--offload")
      << "one rank shards nothing";
}

TEST(PeakRemedy, TakesTheNextPartWhereNothingHelps) {
  const Json options{{"dp", {{"dp", "auto"}}}, {"bench", {{"batch_size", 1}}}};
  EXPECT_EQ(peak_remedy(record({{MemoryKind::norms, 3}, {MemoryKind::activations, 1}}), options),
            "--checkpointing block");
  EXPECT_EQ(peak_remedy(record({{MemoryKind::norms, 3}}), options), "");
}

}  // namespace
}  // namespace shade::plan
