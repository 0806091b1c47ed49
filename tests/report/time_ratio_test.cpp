// Ratios that shade compare measured, in sentences and tables; hostile ones are refused by their key.
#include "shade/report/time_ratio.h"

#include <gtest/gtest.h>

#include "shade/base/error.h"
#include "shade/report/findings.h"

namespace shade::report {
namespace {

ResultRow row_with(const std::string& name, const Json& ratio) {
  Json json{{"mode", name}, {"dp", name}, {"model", "m"}, {"avg_time_ms", 10.0}, {"peak_memory_mb", 1.0}};
  if (!ratio.is_null()) json["ratio"] = ratio;
  return row_of(json, name + "_result.json");
}

Json ratio(double value, const Json& interval) {
  return {{"reference", "none"}, {"value", value}, {"interval", interval}};
}

TEST(TimeRatio, IsToldWithItsInterval) {
  const auto reference = row_with("none", {});
  const auto slower = row_with("ghost", ratio(1.31, {1.25, 1.38}));
  EXPECT_TRUE(distinguishable(slower, reference));
  EXPECT_TRUE(distinguishable(reference, slower));
  const auto words = time_cost_text(slower, reference);
  EXPECT_TRUE(words.starts_with("+31") && words.find("+25") != std::string::npos && words.ends_with(")")) << words;
}

TEST(TimeRatio, AnIntervalWithOneInItIsNoDifference) {
  const auto reference = row_with("none", {});
  const auto same = row_with("ghost", ratio(0.72, {0.5, 1.01}));
  EXPECT_FALSE(distinguishable(same, reference));
  EXPECT_NE(time_cost_text(same, reference).find("not distinguishable"), std::string::npos);
  const auto one_run = row_with("ghost", ratio(0.72, nullptr));
  EXPECT_FALSE(distinguishable(one_run, reference)) << "one run on a busy machine once said -28 %";
  EXPECT_NE(time_cost_text(one_run, reference).find("no interval"), std::string::npos);
}

TEST(TimeRatio, OfAnotherRowSaysNothing) {
  const auto other = row_with("flash", {});
  const auto row = row_with("ghost", ratio(1.31, {1.25, 1.38}));
  EXPECT_EQ(ratio_between(row, other), nullptr);
  EXPECT_FALSE(distinguishable(row, other)) << "both take 10 ms";
}

TEST(TimeRatio, IntervalsOfMediansTellRowsApartThatWereNotPaired) {
  const auto timed = [](const std::string& name, double low, double high) {
    return row_of({{"mode", name},
                   {"dp", name},
                   {"model", "m"},
                   {"avg_time_ms", 10.0},
                   {"peak_memory_mb", 1.0},
                   {"times_ms", {1.0, 99.0}},
                   {"median_time_ms", 10.0},
                   {"median_low_ms", low},
                   {"median_high_ms", high}},
                  name + "_result.json");
  };
  EXPECT_TRUE(distinguishable(timed("ghost", 9, 11), timed("flash", 12, 13)));
  EXPECT_FALSE(distinguishable(timed("ghost", 9, 11), timed("flash", 10, 13)));
}

// A step that was held up moves the average: 100 ms of the average are 10 ms of the median.
TEST(TimeRatio, TimesAreMediansOfRuns) {
  const Json json{{"mode", "none"},           {"dp", "none"},         {"model", "m"},
                  {"peak_memory_mb", 1.0},    {"avg_time_ms", 100.0}, {"times_ms", {10.0, 10.0, 280.0}},
                  {"tokens_per_second", 50.0}};
  const auto one = row_of(json, "none_result.json");
  EXPECT_EQ(one.time_ms, 10);
  EXPECT_EQ(one.average_ms, 100);
  EXPECT_EQ(one.tokens_per_second, 500) << "follows the median";
  EXPECT_FALSE(one.interval_ms()) << "steps of one run are no repeats";
  auto repeated = json;
  repeated["run_times_ms"] = {8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 90.0, 7.0};
  const auto row = row_of(repeated, "none_result.json");
  EXPECT_EQ(row.time_ms, 11);
  ASSERT_TRUE(row.interval_ms());
  EXPECT_EQ(*row.interval_ms(), (std::pair(7.0, 90.0)));
}

TEST(TimeRatio, WhatIsNoRatioIsRefusedByItsKey) {
  const auto refused = [](const Json& value, const std::string& key) {
    try {
      ratio_in({{"ratio", value}});
    } catch (const Error& error) {
      return std::string(error.what()).find(key) != std::string::npos;
    }
    return false;
  };
  EXPECT_TRUE(refused(3, "ratio.reference"));
  EXPECT_TRUE(refused(ratio(-1, nullptr), "ratio.value"));
  EXPECT_TRUE(refused(ratio(1, {2, 1}), "ratio.interval"));
  EXPECT_TRUE(refused(ratio(1, Json::array({1})), "ratio.interval"));
  EXPECT_FALSE(ratio_in(Json::object()));
}

}  // namespace
}  // namespace shade::report
