// shade report from made-up results: every file is there, says what it should, and bad files are named.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>

#include "shade/base/error.h"
#include "shade/report/findings.h"
#include "shade/report/gnuplot.h"
#include "shade/report/pictures.h"
#include "shade/report/report.h"
#include "tests/io/scratch.h"

namespace shade::report {
namespace {

namespace fs = std::filesystem;

struct Case {
  std::string dp = "none", shard = "zero3";
  int64_t seq = 64, batch = 2;
  double peak_mb = 100, time_ms = 50, gathered_mb = 10;
};

Json result_of(const Case& c) {
  const bool two_pass = c.dp == "ghost" || c.dp == "flash";
  const auto mode = c.dp == "none" ? "no_dp" : c.dp + (two_pass && c.shard == "zero3" ? "_fsdp" : "");
  Json bench{{"model", "llama-nano"}, {"seq_length", c.seq}, {"batch_size", c.batch}, {"checkpointing", "none"}};
  return {
      {"mode", mode},
      {"model", "llama-nano"},
      {"shard", c.shard},
      {"dp", c.dp},
      {"seq_length", c.seq},
      {"batch_size", c.batch},
      {"num_ranks", 2},
      {"peak_memory_mb", c.peak_mb},
      {"avg_time_ms", c.time_ms},
      {"times_ms", {c.time_ms * 0.9, c.time_ms * 1.1}},
      {"tokens_per_second", 1000.0 * static_cast<double>(c.seq * c.batch * 2) / c.time_ms},
      {"communication", {{"bytes", 3 << 20}, {"time_ms", 12.0}, {"exposed_ms", 4.0}}},
      {"cpu_overhead_ms", 1.0},
      {"breakdown",
       {{"parameters", 20.0}, {"gathered_parameters", c.gathered_mb}, {"activations", c.peak_mb - 20 - c.gathered_mb}}},
      {"snapshots", {{{"stage", "after warmup"}, {"allocated_mb", 30.0}, {"max_allocated_mb", c.peak_mb}}}},
      {"phases_ms", {{"forward", 10.0}, {"backward", 30.0}}},
      {"config", {{"bench", bench}, {"privacy", {{"dp", c.dp}, {"sigma", c.dp == "none" ? 1.0 : 0.5}}}}}};
}

class Report : public testing::Test {
 protected:
  void add(const std::string& name, const Json& json) const { write_json(folder_ / name, json); }
  void add_methods() const {
    for (const int64_t seq : {64, 128}) {
      const auto scale = static_cast<double>(seq) / 64;
      add(text("none_", seq, ".json"), result_of({.seq = seq, .peak_mb = 100 * scale, .time_ms = 50 * scale}));
      add(text("ghost_", seq, ".json"),
          result_of({.dp = "ghost", .seq = seq, .peak_mb = 120 * scale, .time_ms = 100 * scale}));
      add(text("book_", seq, ".json"),
          result_of({.dp = "bookkeeping", .seq = seq, .peak_mb = 150 * scale, .time_ms = 60 * scale}));
    }
  }
  void add_sweep() const {
    for (const int64_t batch : {2, 4})
      for (const auto* shard : {"zero2", "zero3"})
        add(text(shard, "_", batch, ".json"), result_of({.shard = shard,
                                                         .batch = batch,
                                                         .peak_mb = shard == std::string("zero2") ? 130.0 : 100.0,
                                                         .gathered_mb = shard == std::string("zero2") ? 40.0 : 10.0}));
  }
  WrittenReport write() const { return write_report(folder_, folder_ / "out"); }

  const io::Scratch scratch_;
  const fs::path folder_ = scratch_.path();
};

// Signature, the size in its header, and bytes enough that it can't be a plain colour.
void expect_picture(const fs::path& file) {
  const auto bytes = io::content(file);
  ASSERT_GT(bytes.size(), 4000U) << file;
  EXPECT_EQ(bytes.substr(0, 8), "\x89PNG\r\n\x1a\n") << file;
  EXPECT_GT(static_cast<unsigned char>(bytes[18]), 1U) << file << " is less than 512 points wide";
  // A plain picture compresses to a few long repeats; lines and letters don't.
  std::array<size_t, 256> counts{};
  for (const char c : bytes) ++counts[static_cast<unsigned char>(c)];
  EXPECT_LT(*std::max_element(counts.begin(), counts.end()), bytes.size() / 2) << file << " is nearly empty";
}

TEST_F(Report, WritesEveryFile) {
  if (!find_gnuplot()) GTEST_SKIP() << "gnuplot is not installed";
  add_methods();
  const auto report = write();
  EXPECT_TRUE(report.warnings.empty()) << report.warnings.front();
  for (const auto* file : {"results.csv", "report.html", "visualizations/summary.txt"})
    EXPECT_TRUE(fs::exists(folder_ / "out" / file)) << file;
  for (const auto* name : {"memory_comparison", "time_comparison", "memory_vs_time_tradeoff", "overhead_analysis",
                           "memory_breakdown_comparison", "memory_timeline", "performance_tradeoff",
                           "communication_overhead", "cpu_communication_breakdown"})
    expect_picture(folder_ / "out/visualizations" / text(name, ".png"));
  EXPECT_FALSE(fs::exists(folder_ / "out/visualizations/utilisation_heatmap.png")) << "there is no sweep";
}

TEST_F(Report, DrawsSweepsAndEveryPictureIsListed) {
  if (!find_gnuplot()) GTEST_SKIP() << "gnuplot is not installed";
  add_sweep();
  const auto report = write();
  EXPECT_TRUE(report.warnings.empty()) << report.warnings.front();
  for (const auto* name : {"tokens_per_second", "memory_vs_batch", "utilisation_heatmap"})
    expect_picture(folder_ / "out/visualizations" / text(name, ".png"));
  const auto names = picture_names();
  for (const auto& file : report.files)
    EXPECT_TRUE(file.extension() != ".png" ||
                std::find(names.begin(), names.end(), file.stem().string()) != names.end())
        << file << " would outlive its results";
}

TEST_F(Report, TableHasALineForEveryResultAndFailure) {
  add_methods();
  add("failed.json", {{"failed", true},
                      {"reason", "out of memory, \"really\""},
                      {"log_key", "ghost_seq256"},
                      {"arguments", {"--dp", "ghost", "--shard", "zero3", "--seq-length", "256", "--ranks", "2"}}});
  write();
  const auto csv = io::content(folder_ / "out/results.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 6 + 1) << csv;
  EXPECT_NE(csv.find("\"out of memory, \"\"really\"\"\""), std::string::npos) << csv;
}

TEST_F(Report, PageNeedsNoNetworkAndHoldsTheRows) {
  add_methods();
  add("failed.json",
      {{"failed", true}, {"reason", "</script><b>killed"}, {"log_key", "x"}, {"config", Json::object()}});
  write();
  const auto page = io::content(folder_ / "out/report.html");
  for (const auto* word : {"http://", "https://", "</script><b>"})
    EXPECT_EQ(page.find(word), std::string::npos) << word;
  for (const auto* word : {"ghost_fsdp, seq 64", "bookkeeping, seq 128", "none_64.json", "killed"})
    EXPECT_NE(page.find(word), std::string::npos) << word;
}

TEST_F(Report, CallsAModelByWhatItIs) {
  for (const auto* dp : {"none", "ghost"}) {
    auto result = result_of({.dp = dp});
    result["preset"] = {{"name", "llama3-fsdp"}, {"scale", "small"}};
    result["model"] = "llama3-8b";
    result["config"]["model_name"] = "llama 256 x 4, shape of llama3-8b";
    result["parameters"] = 4'480'000;
    add(text(dp, ".json"), result);
  }
  const auto results = read_results(folder_);
  EXPECT_TRUE(
      results.common.starts_with("preset llama3-fsdp at scale small, llama 256 x 4, shape of llama3-8b, 4.48 M "
                                 "parameters"))
      << results.common;
  write();
  for (const auto* file : {"results.csv", "report.html", "visualizations/summary.txt"})
    EXPECT_NE(io::content(folder_ / "out" / file).find("llama 256 x 4, shape of llama3-8b"), std::string::npos) << file;
  // Beside another model each row says its own.
  add("other.json", result_of({}));
  for (const auto& row : read_results(folder_).rows)
    EXPECT_NE(row.group.find(row.model == "llama3-8b" ? "shape of llama3-8b" : "llama-nano"), std::string::npos)
        << row.group;
}

TEST_F(Report, CallsTheBaselineAsItsRowsAre) {
  add_methods();
  const auto over = [&](const char* word) {
    const auto report = write();
    return report.summary.find(text("memory: over ", word, " at the same shape")) != std::string::npos;
  };
  EXPECT_TRUE(over("no_dp"));
  for (const auto* seq : {"64", "128"}) {
    auto plain = read_json(folder_ / text("none_", seq, ".json"));
    plain["mode"] = "vanilla";
    add(text("none_", seq, ".json"), plain);
  }
  EXPECT_TRUE(over("vanilla"));
  auto plain = read_json(folder_ / "none_64.json");
  plain["mode"] = "no_dp";
  add("none_64.json", plain);
  EXPECT_TRUE(over("no_dp")) << "two words";
}

TEST_F(Report, KnowsEveryRankAndDrawsTheStagesOfOne) {
  auto result = result_of({});
  auto other = result["snapshots"][0];
  other["rank"] = 1;
  other["allocated_mb"] = 77.0;
  result["snapshots"].push_back(other);
  result["memory_by_rank"] = {{{"rank", 0}, {"peak_memory_mb", 100.0}}, {{"rank", 1}, {"peak_memory_mb", 90.0}}};
  result["breakdown_max"] = {{"gram_matrices", 12.5}};
  add("one.json", result);
  const auto row = read_results(folder_).rows.at(0);
  ASSERT_EQ(row.snapshots.size(), 1u);
  EXPECT_EQ(row.snapshots[0].allocated_mb, 30);
  EXPECT_EQ(row.rank_peaks_mb, (std::vector{100.0, 90.0}));
  const auto report = write();
  const auto csv = io::content(folder_ / "out/results.csv");
  EXPECT_NE(csv.find("max_gram_matrices_mb,peak_memory_by_rank_mb"), std::string::npos) << csv;
  EXPECT_NE(csv.find("12.5,100.0 90.0"), std::string::npos) << csv;
}

TEST_F(Report, NamesWhatItLeavesOut) {
  add_methods();
  add("comm.json", {{"rows", Json::array()}});
  auto wrong = result_of({});
  wrong["avg_time_ms"] = "soon";
  add("wrong.json", wrong);
  auto endless = result_of({});
  endless["batch_size"] = 1e300;  // no whole number has room for it
  add("endless.json", endless);
  std::ofstream(folder_ / "cut.json") << "{\"mode\": \"no_dp\", ";
  add("failed.json",
      {{"failed", true}, {"reason", "killed by signal 9"}, {"log_key", "x"}, {"config", Json::object()}});
  const auto report = write();
  std::string all;
  for (const auto& warning : report.warnings) all += warning + "\n";
  for (const auto* word :
       {"comm.json", "cut.json", "wrong.json", "'avg_time_ms' is \"soon\"", "'batch_size' is 1e+300"}) {
    EXPECT_NE(all.find(word), std::string::npos) << all;
    EXPECT_NE(report.summary.find(word), std::string::npos) << report.summary;
  }
  EXPECT_NE(report.summary.find("killed by signal 9"), std::string::npos) << report.summary;
}

TEST_F(Report, SaysWhatPrivacyCostsAtTheSameShape) {
  add_methods();
  const auto results = read_results(folder_);
  ASSERT_EQ(results.rows.size(), 6U);
  for (const auto& row : results.rows) {
    const auto cost = cost_of(results, row);
    ASSERT_EQ(cost.has_value(), row.is_private()) << row.name;
    if (!cost) continue;
    EXPECT_NEAR(cost->time_percent, row.method == "ghost" ? 100 : 20, 1e-9);
    EXPECT_NEAR(cost->memory_percent, row.method == "ghost" ? 20 : 50, 1e-9);
  }
  EXPECT_NE(findings_of(results).front().text.find("bookkeeping"), std::string::npos)
      << "it is the fastest private one";
}

TEST_F(Report, SaysWhyZero3IsSmaller) {
  add_sweep();
  const auto results = read_results(folder_);
  std::string all;
  for (const auto& finding : findings_of(results)) all += finding.text + "\n";
  EXPECT_NE(all.find("ZeRO-3 is smaller by 30.0 MiB"), std::string::npos) << all;
  EXPECT_NE(all.find("10.0 MiB against 40.0 MiB"), std::string::npos) << all;
}

TEST_F(Report, WithoutGnuplotTheRestIsWritten) {
  add_methods();
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", folder_.c_str(), 1);
  const auto report = write();
  ::setenv("PATH", path.c_str(), 1);
  ASSERT_EQ(report.warnings.size(), 1U);
  EXPECT_NE(report.warnings[0].find("install it"), std::string::npos) << report.warnings[0];
  EXPECT_TRUE(fs::exists(folder_ / "out/report.html"));
  EXPECT_FALSE(report.has_pictures());
}

TEST_F(Report, RowsThatAllFailedHaveNoPictures) {
  add("failed.json", {{"failed", true}, {"reason", "killed"}, {"log_key", "x"}, {"config", Json::object()}});
  EXPECT_FALSE(write().has_pictures());
}

TEST_F(Report, RefusesAFolderWithoutResults) {
  EXPECT_THROW(write(), UsageError);
  EXPECT_THROW(write_report(folder_ / "absent", folder_), UsageError);
}

}  // namespace
}  // namespace shade::report
