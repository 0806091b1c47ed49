// A page of a plan: the pictures are there, and its figures are those of the plan's file.
#include <gtest/gtest.h>

#include <fstream>

#include "shade/base/error.h"
#include "shade/report/gnuplot.h"
#include "shade/report/report.h"
#include "tests/io/scratch.h"
#include "tests/report/sample_rows.h"

namespace shade::report {
namespace {

namespace fs = std::filesystem;

Json plan_environment() { return {{"command", "shade plan --model llama-nano"}, {"shade", "0.2.0"}}; }

// A row as shade plan writes it: under the keys of a measured one, without times of several steps.
Json planned_row(const std::string& dp, double grows) {
  auto row = test::result_of({.dp = dp, .shard = "zero3", .grows = grows});
  for (const auto* key : {"times_ms", "snapshots", "environment", "cpu_overhead_ms"}) row.erase(key);
  row["name"] = dp + ", zero3";
  row["num_ranks"] = 1024;
  row["fits"] = true;
  row["peak_owner"] = {{"words", "1.00 GiB of gradients in backward, unit layers.3"}};
  const double ms = row["avg_time_ms"].get<double>();
  auto& timeline = row["timeline"];
  timeline["spans"].push_back(
      {{"name", "gather_wait"}, {"of", "gather layers.0"}, {"from_ms", 0.1 * ms}, {"to_ms", 0.2 * ms}});
  timeline["spans"].push_back(
      {{"name", "unit_forward"}, {"of", "layers.0"}, {"from_ms", 0.2 * ms}, {"to_ms", 0.4 * ms}});
  for (const auto* stream : {"network", "node"})
    timeline["collectives"].push_back({{"name", "all_gather"},
                                       {"label", "gather layers.0"},
                                       {"from_ms", 0.0},
                                       {"to_ms", 0.2 * ms},
                                       {"waited_ms", 0.1 * ms},
                                       {"mb", 12.0},
                                       {"stream", stream}});
  return row;
}

Json plan_of(std::vector<Json> rows) {
  return {{"rows", std::move(rows)}, {"environment", plan_environment()}, {"device_profile", "h100-80g"}};
}

Json tried(const std::string& name, double mb, double ms, const std::string& verdict) {
  Json row{{"name", name},
           {"verdict", verdict},
           {"batch_size", 1},
           {"settings", Json::object()},
           {"peak_memory_mb", mb},
           {"ms_per_sample", ms},
           {"device_ms_per_sample", 8 * ms}};
  if (verdict != "front") row["reason"] = "other settings are faster";
  return row;
}

class PlanPage : public testing::Test {
 protected:
  WrittenReport write(const Json& plan) const {
    write_json(file_, plan);
    return write_report(file_, out_);
  }
  bool has_picture(const std::string& name) const { return fs::exists(out_ / "visualizations" / (name + ".png")); }

  io::Scratch scratch_;
  fs::path file_ = scratch_.path() / "p.json", out_ = scratch_.path() / "out";
};

TEST_F(PlanPage, HasItsPicturesAndTheFiguresOfTheFile) {
  const auto plan = plan_of({planned_row("none", 1), planned_row("flash", 1.5)});
  const auto report = write(plan);
  EXPECT_TRUE(report.warnings.empty() || !find_gnuplot()) << report.warnings.front();
  const auto page = io::content(out_ / "report.html");
  ASSERT_EQ(report.json["rows"].size(), 2u);
  EXPECT_TRUE(report.json["planned"].get<bool>());
  for (size_t i = 0; i < 2; ++i) {
    const auto &shown = report.json["rows"][i], &stated = plan["rows"][i];
    for (const auto* key : {"avg_time_ms", "peak_memory_mb", "tokens_per_second"}) {
      EXPECT_EQ(shown[key], stated[key]) << key;
      EXPECT_NE(page.find(text('"', key, "\":", stated[key].dump())), std::string::npos) << key << " on the page";
    }
    EXPECT_EQ(shown["ranks"], 1024);
    EXPECT_EQ(shown["timeline"], stated["timeline"]);
    EXPECT_EQ(shown["communication"]["exposed_ms"], stated["communication"]["exposed_ms"]);
  }
  EXPECT_NE(report.summary.find("planned for h100-80g"), std::string::npos) << report.summary;
  if (!find_gnuplot()) GTEST_SKIP() << "gnuplot is not installed";
  for (const auto* name : {"memory_timeline", "step_timeline", "time_comparison", "memory_breakdown_comparison"})
    EXPECT_TRUE(has_picture(name)) << name;
  const auto script = io::content(out_ / "visualizations/scripts/step_timeline.gp");
  for (const auto* track : {"\"network\"", "\"in the node\"", "\"waits\"", "\"units\""})
    EXPECT_NE(script.find(track), std::string::npos) << track;
}

TEST_F(PlanPage, OfAdviceHasTheFrontAndItsRecommendedStep) {
  Json plan{{"rows",
             {tried("zero3, batch 1", 4000, 9, "front"), tried("zero2, batch 2", 20'000, 5, "front"),
              tried("ddp, batch 1", 15'000, 8, "slower"), tried("ddp, batch 64", 90'000, 4, "over")}},
            {"memory_limit_mb", 24'576},
            {"recommended", {{"name", "zero2, batch 2"}, {"plan", planned_row("none", 1)}}},
            {"environment", plan_environment()},
            {"device_profile", "h100-80g"}};
  const auto report = write(plan);
  ASSERT_EQ(report.json["advice"].size(), 1u);
  const auto& advice = report.json["advice"][0];
  EXPECT_EQ(advice["recommended"], "zero2, batch 2");
  EXPECT_EQ(advice["limit_mb"], 24'576);
  ASSERT_EQ(advice["rows"].size(), 4u);
  EXPECT_EQ(advice["rows"][1]["peak_memory_mb"], 20'000);
  EXPECT_EQ(advice["rows"][1]["time"], 5);
  EXPECT_EQ(report.json["rows"].size(), 1u) << "the step of what is recommended";
  EXPECT_NE(report.summary.find("Recommended: zero2, batch 2"), std::string::npos) << report.summary;
  if (!find_gnuplot()) GTEST_SKIP() << "gnuplot is not installed";
  EXPECT_TRUE(has_picture("plan_front"));
  const auto script = io::content(out_ / "visualizations/scripts/plan_front.gp");
  EXPECT_NE(script.find("zero2, batch 2: 19.5 GiB, 5.00 ms per sample (recommended)"), std::string::npos) << script;
  EXPECT_NE(script.find("1 of 4 settings are outside"), std::string::npos) << script;
}

TEST_F(PlanPage, WithoutTimesSaysWhatIsMissing) {
  auto row = planned_row("none", 1);
  row.erase("avg_time_ms");
  write_json(file_, plan_of({row}));
  try {
    (void)write_report(file_, out_);
    FAIL() << "a plan without times was drawn";
  } catch (const UsageError& fault) {
    EXPECT_NE(std::string(fault.what()).find("--device-profile"), std::string::npos) << fault.what();
  }
}

TEST_F(PlanPage, BesideAMeasuredResultIsToldApart) {
  write_json(file_, plan_of({planned_row("none", 1)}));
  write_json(scratch_.path() / "measured.json", test::result_of({.shard = "zero3"}));
  const auto report = write_report(scratch_.path(), out_);
  ASSERT_EQ(report.json["rows"].size(), 2u);
  EXPECT_FALSE(report.json["planned"].get<bool>());
  const auto names =
      report.json["rows"][0]["name"].get<std::string>() + report.json["rows"][1]["name"].get<std::string>();
  EXPECT_NE(names.find("planned for h100-80g"), std::string::npos) << names;
}

}  // namespace
}  // namespace shade::report
