// What shade bench counts, for every method and strategy: it adds up, it names its owner, it fits on one axis of time.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "shade/base/json.h"
#include "shade/catalog/methods.h"
#include "shade/catalog/strategies.h"
#include "tests/support/process.h"

namespace shade::test {
namespace {

constexpr const char* kKinds[] = {"parameters",  "gathered_parameters",   "gradients",    "optimizer",
                                  "activations", "kept_for_private_step", "norm_samples", "gram_matrices",
                                  "temporary",   "communication",         "data",         "other"};

void check_memory(const Json& json, const std::string& what) {
  for (const auto& snapshot : json["snapshots"]) {
    double sum = 0;
    for (const auto* kind : kKinds) sum += snapshot[kind].get<double>();
    const double total = snapshot["allocated_mb"].get<double>();
    EXPECT_NEAR(sum, total, 0.01 * total) << what << ", " << snapshot["stage"];
    EXPECT_LE(total, snapshot["max_allocated_mb"].get<double>()) << what;
  }
  double sum = 0;
  for (const auto& [kind, mb] : json["breakdown"].items()) sum += mb.get<double>();
  const double peak = json["peak_memory_mb"].get<double>();
  EXPECT_NEAR(sum, peak, 0.01 * peak) << what;
  EXPECT_LE(json["breakdown"]["other"].get<double>(), 0.01 * peak) << what << ": somebody doesn't say what for";
  const auto& owner = json["peak_owner"];
  EXPECT_TRUE(owner.contains("phase") && owner.contains("category") && owner["mb"].get<double>() >= 0)
      << what << ": " << owner;
}

// The document's keys beside ours, for every rank and stage; each category's highest moment beside the peak's.
void check_ranks(const Json& json, int ranks, bool is_private, const std::string& what) {
  ASSERT_EQ(json["memory_by_rank"].size(), static_cast<size_t>(ranks)) << what;
  double largest = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto& one = json["memory_by_rank"][static_cast<size_t>(rank)];
    EXPECT_EQ(one["rank"], rank) << what;
    EXPECT_GT(one["peak_resident_mb"].get<double>(), 0) << what;
    EXPECT_GT(one["average_memory_mb"].get<double>(), 0) << what;
    largest = std::max(largest, one["peak_memory_mb"].get<double>());
  }
  EXPECT_EQ(largest, json["peak_memory_mb"].get<double>()) << what;
  for (const auto* kind : kKinds)
    EXPECT_GE(json["breakdown_max"][kind].get<double>(), json["breakdown"][kind].get<double>()) << what << kind;
  EXPECT_EQ(json["breakdown_max"]["norm_samples"].get<double>() > 0, is_private) << what;
  std::map<std::pair<std::string, int>, int> lines;
  for (const auto& line : json["snapshots"]) {
    ++lines[{line["stage"].get<std::string>(), line["rank"].get<int>()}];
    EXPECT_EQ(line["log_key"], "memory") << what;
    EXPECT_EQ(line["device"], json["num_gpus"] == 0 ? "cpu" : "cuda") << what;
    EXPECT_NEAR(line["cuda_memory_allocated_GB"].get<double>(), line["allocated_mb"].get<double>() / 1024, 1e-5);
    EXPECT_NEAR(line["cuda_max_memory_allocated_GB"].get<double>(), line["max_allocated_mb"].get<double>() / 1024,
                1e-5);
    EXPECT_NEAR(line["cuda_memory_reserved_GB"].get<double>(), line["reserved_mb"].get<double>() / 1024, 1e-5);
    EXPECT_GE(line["cuda_max_memory_reserved_GB"], line["cuda_memory_reserved_GB"]) << what;
    EXPECT_NEAR(line["cpu_memory_rss_GB"].get<double>(), line["rss_mb"].get<double>() / 1024, 1e-5) << what;
  }
  for (const auto* stage : {"after data creation", "after model creation", "after warmup", "after training"})
    for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ((lines[{stage, rank}]), 1) << what << stage << rank;
}

void check_timeline(const Json& json, const std::string& what) {
  const auto& timeline = json["timeline"];
  const double step = timeline["step_ms"].get<double>();
  EXPECT_GT(timeline["spans"].size(), 2u) << what;
  for (const auto* list : {"spans", "collectives"})
    for (const auto& entry : timeline[list]) {
      EXPECT_LE(0, entry["from_ms"].get<double>()) << what << entry;
      EXPECT_LE(entry["from_ms"].get<double>(), entry["to_ms"].get<double>()) << what << entry;
      EXPECT_LE(entry["to_ms"].get<double>(), step + 0.01) << what << entry;
    }
  const auto& memory = timeline["memory"];
  double highest = 0;
  for (size_t i = 0; i < memory["ms"].size(); ++i) {
    double sum = 0;
    for (const auto& [kind, values] : memory.items())
      if (kind != "ms") sum += values[i].get<double>();
    highest = std::max(highest, sum);
  }
  EXPECT_GT(highest, 0.9 * json["snapshots"][2]["max_allocated_mb"].get<double>()) << what;
}

void check_traffic(const Json& json, int ranks, const std::string& what) {
  const auto& communication = json["communication"];
  int64_t bytes = 0;
  for (const auto& one : communication["collectives"]) bytes += one["bytes"].get<int64_t>();
  EXPECT_NEAR(static_cast<double>(bytes), communication["bytes"].get<double>(), 64) << what << ": rounding, a step";
  EXPECT_EQ(bytes > 0, ranks > 1) << what;
}

TEST(Ledgers, AddUpForEveryMethodAndStrategy) {
  const auto file = std::filesystem::temp_directory_path() / "shade_ledger_test.json";
  for (const auto& strategy : catalog::kStrategies) {
    const int ranks = std::clamp(2, strategy.min_ranks, strategy.max_ranks);
    for (const auto& row : catalog::kMethods) {
      const std::string method(row.name);
      if (ranks == 4 && method != "ghost" && method != "auto") continue;
      const auto what = text(strategy.name, ", ", method);
      const auto outcome = run({shade_binary(), "bench",
                                "--model",      "llama-nano",
                                "--hidden-dim", "64",
                                "--seq-length", "64",
                                "--num-iter",   "1",
                                "--threads",    "1",
                                "--shard",      std::string(strategy.name),
                                "--ranks",      std::to_string(ranks),
                                "--dp",         method,
                                "--json",       file.string()});
      ASSERT_EQ(outcome.status, 0) << what << "\n" << outcome.output;
      const auto json = read_json(file);
      check_memory(json, what);
      check_ranks(json, ranks, method != "none", what);
      if (method == "ghost" || method == "bookkeeping")
        EXPECT_GT(json["breakdown_max"]["gram_matrices"].get<double>(), 0) << what;
      if (method == "none" || method == "materialize")
        EXPECT_EQ(json["breakdown_max"]["gram_matrices"].get<double>(), 0) << what;
      check_timeline(json, what);
      check_traffic(json, ranks, what);
      EXPECT_GT(json["gemm_share"].get<double>(), 0) << what;
      EXPECT_FALSE(json.contains("mfu")) << "no peak was stated";
      EXPECT_GT(json["phases_ms"]["forward"].get<double>(), 0) << what;
    }
  }
  std::filesystem::remove(file);
}

// Tensors are what a process grows by.
TEST(Ledgers, ThePeakIsWhatTheSystemSees) {
  const auto file = std::filesystem::temp_directory_path() / "shade_ledger_rss_test.json";
  const auto outcome = run({shade_binary(), "bench", "--model", "linear", "--hidden-dim", "4096", "--num-layers", "5",
                            "--batch-size", "512", "--num-iter", "1", "--threads", "2", "--json", file.string()},
                           {.limit = Seconds(110)});
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const auto json = read_json(file);
  const auto& first = json["snapshots"].front();
  const double grown = json["peak_resident_mb"].get<double>() - first["rss_mb"].get<double>();
  const double tensors = json["peak_memory_mb"].get<double>() - first["allocated_mb"].get<double>();
  EXPECT_GT(tensors, 1024) << "the promise is about runs of more than 1 GB";
  EXPECT_NEAR(grown, tensors, 0.1 * tensors);
  std::filesystem::remove(file);
}

// As on CUDA. Here the peak is in the creation of the model, whose heap goes back to the system before the stage.
TEST(Ledgers, WhatIsReservedIsAtLeastWhatIsAllocated) {
  const auto file = std::filesystem::temp_directory_path() / "shade_ledger_reserved_test.json";
  const auto outcome =
      run({shade_binary(), "bench", "--model", "linear", "--hidden-dim", "4096", "--num-layers", "3", "--batch-size",
           "8", "--offload", "--num-iter", "1", "--warmup-iter", "0", "--json", file.string()},
          {.limit = Seconds(110)});
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  for (const auto& line : read_json(file)["snapshots"]) {
    EXPECT_GE(line["cuda_max_memory_reserved_GB"], line["cuda_max_memory_allocated_GB"]) << line;
    EXPECT_GE(line["cuda_memory_reserved_GB"], line["cuda_memory_allocated_GB"]) << line;
  }
  std::filesystem::remove(file);
}

TEST(Ledgers, BareRunsAreNotMeasured) {
  const auto file = std::filesystem::temp_directory_path() / "shade_ledger_bare_test.json";
  const auto outcome =
      run({shade_binary(), "bench", "--model", "linear-nano", "--threads", "1", "--bare", "--json", file.string()});
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const auto json = read_json(file);
  EXPECT_TRUE(json["phases_ms"].empty());
  EXPECT_EQ(json["peak_memory_mb"], 0);
  EXPECT_GT(json["avg_time_ms"].get<double>(), 0);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace shade::test
