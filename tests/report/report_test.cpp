// shade report from made-up results: every file is there, says what it should, and bad files are named.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>

#include "shade/base/error.h"
#include "shade/report/findings.h"
#include "shade/report/gnuplot.h"
#include "shade/report/page.h"
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

std::string words_of(const std::vector<Finding>& findings) {
  std::string out;
  for (const auto& [about, words, is_doubt] : findings) out += text(about, ": ", words, "\n");
  return out;
}

bool holds(const std::string& all, const std::string& words) { return all.find(words) != std::string::npos; }

TEST_F(Report, SaysFirstThatOthersUsedTheMachineAndComparesNoTimes) {
  add_methods();
  EXPECT_TRUE(holds(words_of(findings_of(read_results(folder_))), "Fastest that fits"));
  for (const auto* name : {"none_64", "ghost_64", "book_64", "none_128", "ghost_128", "book_128"}) {
    auto json = read_json(folder_ / text(name, ".json"));
    json["load"] = {{"others", 0.57}};
    add(text(name, ".json"), json);
  }
  const auto report = write();
  EXPECT_TRUE(report.summary.starts_with("Busy machine: other programs used 57.0 % of the cores")) << report.summary;
  EXPECT_EQ(report.json["findings"][0]["about"], "Busy machine") << "the lead of the page";
  EXPECT_FALSE(holds(report.summary, "Fastest that fits")) << report.summary;
  EXPECT_TRUE(holds(report.summary, "Cost of ghost_fsdp: time not compared, +20.0 % memory")) << report.summary;
}

TEST_F(Report, HasNoHeadlineOfTooFewRuns) {
  auto plain = result_of({}), ghost = result_of({.dp = "ghost", .time_ms = 40});
  ghost["ratio"] = {{"reference", "none"}, {"value", 0.8}, {"interval", nullptr}};
  add("none_result.json", plain);
  add("ghost_result.json", ghost);
  auto all = words_of(findings_of(read_results(folder_)));
  EXPECT_TRUE(all.starts_with("Too few runs: 1 of 2 rows")) << all;
  EXPECT_FALSE(holds(all, "Fastest")) << all;
  ghost["ratio"]["interval"] = {0.7, 0.9};
  add("ghost_result.json", ghost);
  all = words_of(findings_of(read_results(folder_)));
  EXPECT_TRUE(all.starts_with("Fastest that fits")) << all;
}

TEST_F(Report, AdvisesNothingThatIsSet) {
  auto result = result_of({});
  result["communication"]["exposed_ms"] = 30.0;
  result["config"]["shard"] = {{"forward_prefetch", true}};
  add("one.json", result);
  auto all = words_of(findings_of(read_results(folder_)));
  EXPECT_TRUE(holds(all, "60.0 % of a step waits for traffic")) << all;
  EXPECT_FALSE(holds(all, "--forward-prefetch")) << all;
  EXPECT_TRUE(holds(all, "--checkpointing block")) << all;
  result["config"]["shard"]["forward_prefetch"] = false;
  result["config"]["bench"]["checkpointing"] = "block";
  add("one.json", result);
  all = words_of(findings_of(read_results(folder_)));
  EXPECT_TRUE(holds(all, "--forward-prefetch")) << all;
  EXPECT_FALSE(holds(all, "--checkpointing block")) << all;
}

// The same pair of rows: its ratio, and the words about it.
TEST_F(Report, Zero3OverZero2IsInTheSummaryAndDoesNotContradictItself) {
  auto two = result_of({.shard = "zero2", .time_ms = 100}), three = result_of({.time_ms = 58.5});
  three["ratio"] = {{"reference", "two"}, {"value", 0.585}, {"interval", {0.4, 1.2}}};
  add("two_result.json", two);
  add("three_result.json", three);
  auto summary = write().summary;
  EXPECT_TRUE(holds(summary, "time over zero2")) << summary;
  EXPECT_TRUE(holds(summary, "-41.5 % (-60.0 % to +20.0 %, not distinguishable)")) << summary;
  EXPECT_FALSE(holds(summary, "0.585 x")) << summary;
  EXPECT_TRUE(holds(summary, "its time is not distinguishable from that of ZeRO-2")) << summary;
  three["ratio"]["interval"] = {0.5, 0.7};
  add("three_result.json", three);
  summary = write().summary;
  EXPECT_TRUE(holds(summary, "takes 0.585 x the time")) << summary;
  const auto page = report_json(read_results(folder_), {});
  EXPECT_NEAR(page["rows"][1]["over_zero2"]["time_percent"].get<double>(), -41.5, 1e-9) << page["rows"][1];
  EXPECT_FALSE(page["rows"][0].contains("over_zero2"));

  // Of several pairs the times are said once, and only where they are distinguishable.
  for (const int64_t length : {128, 256}) {
    auto slow = result_of({.shard = "zero2", .seq = length}), same = result_of({.seq = length});
    same["ratio"] = {{"reference", text("two_", length)}, {"value", 1.01}, {"interval", {0.9, 1.1}}};
    add(text("two_", length, "_result.json"), slow);
    add(text("three_", length, "_result.json"), same);
  }
  const auto all = words_of(findings_of(read_results(folder_)));
  EXPECT_FALSE(holds(all, "x the time")) << all;
  EXPECT_TRUE(holds(all, "-41.5 % time in 1 of 3 pairs, not distinguishable in the other 2")) << all;
}

// The cost of a method: a range of what differs, and a count of what doesn't.
TEST_F(Report, CostsDoNotContradictThemselves) {
  for (const int64_t length : {64, 128}) {
    auto ghost = result_of({.dp = "ghost", .seq = length});
    ghost["ratio"] = {{"reference", text("none_", length)}, {"value", length == 64 ? 1.3 : 1.02}};
    ghost["ratio"]["interval"] = length == 64 ? Json({1.2, 1.4}) : Json({0.9, 1.1});
    add(text("none_", length, "_result.json"), result_of({.seq = length}));
    add(text("ghost_", length, "_result.json"), ghost);
  }
  const auto all = words_of(findings_of(read_results(folder_)));
  EXPECT_TRUE(holds(all, "+30.0 % time in 1 of 2 pairs, not distinguishable in the other one")) << all;
}

TEST_F(Report, AdvisesNoTrafficOfABusyMachineAndNoShardingOfWhatIsSharded) {
  auto result = result_of({.shard = "zero2"});
  result["communication"]["exposed_ms"] = 30.0;
  result["breakdown"] = {{"optimizer", 90.0}};
  add("one.json", result);
  auto all = words_of(findings_of(read_results(folder_)));
  EXPECT_TRUE(holds(all, "waits for traffic")) << all;
  EXPECT_FALSE(holds(all, "--shard zero3")) << all;
  EXPECT_FALSE(holds(all, "a larger --grad-accum")) << all;
  result["config"]["bench"]["grad_accum"] = 4;
  add("one.json", result);
  EXPECT_TRUE(holds(words_of(findings_of(read_results(folder_))), "a larger --grad-accum")) << "it is in use";
  result["load"] = {{"others", 0.57}};
  add("one.json", result);
  all = words_of(findings_of(read_results(folder_)));
  EXPECT_FALSE(holds(all, "waits for traffic")) << all;
}

TEST_F(Report, LeavesOutColumnsWithoutAValue) {
  auto alone = result_of({.shard = "none"});
  alone["communication"]["bytes"] = 0;
  add("one.json", alone);
  const auto summary = write().summary;
  const auto header =
      summary.substr(summary.find("mode"), summary.find('\n', summary.find("mode")) - summary.find("mode"));
  for (const auto* column : {"shape", "waits", " time"}) EXPECT_FALSE(holds(header, column)) << header;
  EXPECT_TRUE(holds(header, "median step")) << header;
  add_methods();
  EXPECT_TRUE(holds(write().summary, "waits")) << "other rows have values";
}

TEST_F(Report, SaysWherePrivacyNeedsLessMemory) {
  add("none.json", result_of({.peak_mb = 100}));
  add("book.json", result_of({.dp = "bookkeeping", .peak_mb = 80}));
  const auto all = words_of(findings_of(read_results(folder_)));
  EXPECT_TRUE(holds(all, "It needs less memory than without privacy")) << all;
  EXPECT_TRUE(holds(all, "at the peak 50.0 MiB of activations against 70.0 MiB")) << all;
}

TEST_F(Report, ShowsAMatrixThatWasCutShort) {
  fs::create_directories(folder_ / "repeats");
  for (const int round : {0, 1}) {
    add(text("repeats/none_", round, ".json"), result_of({.time_ms = 50.0 + 10 * round}));
    add(text("repeats/ghost_", round, ".json"), result_of({.dp = "ghost", .time_ms = 90}));
  }
  std::ofstream(folder_ / "repeats/flash_0.json.unfinished") << "{";
  auto results = read_results(folder_);
  ASSERT_EQ(results.rows.size(), 2U);
  EXPECT_EQ(results.rows[0].time_ms, 55) << "the median of both runs";
  const auto report = write();
  EXPECT_TRUE(report.summary.starts_with("Unfinished: 2 rows are from repeats/")) << report.summary;
  EXPECT_TRUE(holds(report.summary, "--resume")) << report.summary;
  auto busy = result_of({.dp = "ghost", .time_ms = 90});
  busy["load"] = {{"others", 0.57}, {"average", 1.2}};
  add("repeats/ghost_0.json", busy);
  add("repeats/ghost_1.json", busy);
  results = read_results(folder_);
  const auto doubts = report_json(results, findings_of(results))["findings"];
  EXPECT_EQ(doubts[0]["about"], "Busy machine") << "comes first";
  EXPECT_EQ(doubts[1]["about"], "Unfinished");
  EXPECT_EQ(doubts[1]["doubt"], true);
  add("none_result.json", result_of({}));
  add("ghost_result.json", result_of({.dp = "ghost"}));
  results = read_results(folder_);
  EXPECT_EQ(results.unfinished, 0U);
  EXPECT_EQ(results.rows.size(), 2U) << "a row that is complete is read once";
}

TEST_F(Report, AFolderNamedVisualizationsHoldsThePicturesItself) {
  add_methods();
  const auto report = write_report(folder_, folder_ / "out/visualizations/");
  EXPECT_TRUE(fs::exists(folder_ / "out/visualizations/summary.txt"));
  EXPECT_FALSE(fs::exists(folder_ / "out/visualizations/visualizations"));
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
