// shade plan of large worlds: the timeline in its file, whole runs, and privacy spent.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "shade/base/json.h"
#include "tests/io/scratch.h"
#include "tests/support/process.h"

namespace shade::test {
namespace {

Json planned_at_scale(const io::Scratch& here, std::vector<std::string> words) {
  std::vector<std::string> command{shade_binary(),
                                   "plan",
                                   "--model",
                                   "llama3-8b",
                                   "--num-layers",
                                   "2",
                                   "--task",
                                   "lm",
                                   "--seq",
                                   "512",
                                   "--dtype",
                                   "bf16",
                                   "--checkpointing",
                                   "block",
                                   "--device-profile",
                                   "h100-80g",
                                   "--json",
                                   (here.path() / "p.json").string()};
  command.insert(command.end(), words.begin(), words.end());
  const auto outcome = run(command);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  return read_json(here.path() / "p.json");
}

TEST(PlanAtScale, TimelineIsOfThePredictedStep) {
  const io::Scratch here;
  const auto row = planned_at_scale(here, {"--dp", "auto", "--shard", "zero3", "--ranks", "1024"}).at("rows").at(0);
  const auto& timeline = row.at("timeline");
  const double step_ms = row.at("avg_time_ms").get<double>();
  EXPECT_NEAR(timeline.at("step_ms").get<double>(), step_ms, 1e-3);
  double phases = 0, waits = 0, sent_mb = 0, highest = 0;
  for (const auto& span : timeline.at("spans")) {
    const auto name = span.at("name").get<std::string>();
    const double ms = span.at("to_ms").get<double>() - span.at("from_ms").get<double>();
    if (name.ends_with("_wait")) waits += ms;
    if (!name.ends_with("_wait") && !name.starts_with("unit_")) phases += ms;
  }
  EXPECT_NEAR(phases, step_ms, 0.05 * step_ms) << "phases follow each other without gaps";
  EXPECT_NEAR(waits, row.at("time").at("exposed_ms").get<double>(), 0.02 * step_ms);
  for (const auto& one : timeline.at("collectives")) {
    sent_mb += one.at("mb").get<double>();
    EXPECT_TRUE(one.at("stream") == "network" || one.at("stream") == "hosts") << one;
  }
  EXPECT_NEAR(sent_mb, row.at("communication").at("bytes").get<double>() / (1 << 20), 1);
  const auto& memory = timeline.at("memory");
  for (size_t i = 0; i < memory.at("ms").size(); ++i) {
    double sum = 0;
    for (const auto& [kind, values] : memory.items())
      if (kind != "ms") sum += values.at(i).get<double>();
    highest = std::max(highest, sum);
  }
  EXPECT_LE(highest, row.at("peak_memory_mb").get<double>() + 0.1);
  EXPECT_GT(highest, 0.5 * row.at("peak_memory_mb").get<double>());
}

// A collective per unit and use: a GPU's units are not cut into segments, as a CPU's are.
TEST(PlanAtScale, GpuMovesWholeUnits) {
  const io::Scratch here;
  const auto row = planned_at_scale(here, {"--dp", "none", "--shard", "zero3", "--ranks", "64"}).at("rows").at(0);
  for (const auto& one : row.at("communication").at("collectives"))
    if (one.at("axis") == "shard") EXPECT_LE(one.at("count").get<int>(), 12) << one;
}

TEST(PlanAtScale, WholeRunFollowsFromItsStep) {
  const io::Scratch here;
  const auto json = planned_at_scale(
      here, {"--dp", "auto", "--shard", "hsdp", "--replicate", "128", "--ranks", "1024", "--tokens", "1e12",
             "--price-per-hour", "2", "--records", "1000000000", "--target-epsilon", "8", "--delta", "1e-10"});
  const auto& row = json.at("rows").at(0);
  const auto& whole = row.at("run");
  const double steps = std::ceil(1e12 / row.at("tokens").get<double>());
  EXPECT_EQ(whole.at("steps").get<double>(), steps);
  EXPECT_NEAR(whole.at("training_days").get<double>(), steps * row.at("avg_time_ms").get<double>() / 1e3 / 86400, 1e-6);
  EXPECT_NEAR(whole.at("days").get<double>() * whole.at("goodput").get<double>(),
              whole.at("training_days").get<double>(), 1e-6);
  EXPECT_NEAR(whole.at("price").get<double>(), 2 * 24 * 1024 * whole.at("days").get<double>(), 1);
  // Master weights and two moments, all in fp32, once: copies of a shard deal its pieces.
  const double state = 12 * row.at("parameters").get<double>();
  EXPECT_NEAR(whole.at("checkpoint_bytes").get<double>() / state, 1, 0.01);
  const auto& chosen = json.at("privacy").at("plan");
  EXPECT_EQ(chosen.at("steps").get<double>(), steps);
  EXPECT_EQ(chosen.at("batch"), row.at("samples"));
  EXPECT_LE(chosen.at("epsilon").get<double>(), 8);
  EXPECT_GT(json.at("privacy").at("epsilon_with_expected_failures").get<double>(), chosen.at("epsilon").get<double>());
}

TEST(PlanAtScale, WholeRunNeedsADevice) {
  const auto none = run({shade_binary(), "plan", "--model", "llama-nano", "--tokens", "1e9"});
  EXPECT_EQ(none.status, 2);
  EXPECT_NE(none.output.find("--device-profile"), std::string::npos) << none.output;
  const auto alone = run({shade_binary(), "plan", "--model", "llama-nano", "--price-per-hour", "2"});
  EXPECT_EQ(alone.status, 2);
  EXPECT_NE(alone.output.find("--tokens"), std::string::npos) << alone.output;
}

}  // namespace
}  // namespace shade::test
