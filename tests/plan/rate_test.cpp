#include "shade/plan/device_profile.h"

#include <gtest/gtest.h>

#include "shade/base/error.h"

namespace shade::plan {
namespace {

TEST(Rate, IsAStartAndAShareOfASecond) {
  const Rate rate{.start = Seconds(2e-6), .per_second = 1e9};
  EXPECT_DOUBLE_EQ(rate.time(1e6).count(), 2e-6 + 1e-3);
  EXPECT_DOUBLE_EQ(rate.time(0).count(), 2e-6);
}

TEST(Rate, InterpolatesMeasuredPoints) {
  const Rate rate{.points = {{100, Seconds(1)}, {10'000, Seconds(4)}}};
  EXPECT_DOUBLE_EQ(rate.time(100).count(), 1);
  EXPECT_NEAR(rate.time(1000).count(), 2, 1e-12) << "half of the way in logarithms";
  EXPECT_DOUBLE_EQ(rate.time(1).count(), 1) << "nothing is faster than the smallest measured";
  EXPECT_DOUBLE_EQ(rate.time(30'000).count(), 12) << "the last point's rate";
}

TEST(Rate, FitFindsTheLawThatMadeThePoints) {
  std::vector<RatePoint> points;
  for (const double amount : {1e3, 1e5, 1e6, 1e8}) points.push_back({amount, Seconds(5e-6 + amount / 3e9)});
  std::swap(points[0], points[2]);  // in any order
  const auto found = fitted(points);
  EXPECT_NEAR(found.start.count(), 5e-6, 1e-12);
  EXPECT_NEAR(found.per_second, 3e9, 1);
  EXPECT_EQ(found.points.front().amount, 1e3);
}

TEST(Rate, FitNeverStartsBeforeItBegins) {
  const auto found = fitted({{1e3, Seconds(1e-7)}, {1e6, Seconds(1e-3)}});
  EXPECT_EQ(found.start.count(), 0);
  EXPECT_GT(found.per_second, 0);
}

// All-reduce on 4 nodes of 8 H200 (ml-engineering): bus bandwidths by size. A start and a rate hold them within 25 %.
TEST(Rate, FitsPublishedAllReduces) {
  const double factor = 2 * 31.0 / 32;
  std::vector<RatePoint> points;
  for (const auto& [bytes, bus] : {std::pair{1 << 20, 17e9}, {8 << 20, 69e9}, {32 << 20, 98e9}, {64 << 20, 90e9}})
    points.push_back({static_cast<double>(bytes), Seconds(bytes * factor / bus)});
  const auto found = fitted(points);
  for (const auto& [bytes, took] : points) {
    const double by_law = found.start.count() + bytes / found.per_second;
    EXPECT_NEAR(by_law / took.count(), 1, 0.25) << bytes << " bytes";
    EXPECT_DOUBLE_EQ(found.time(bytes).count(), took.count()) << "measured points go before the law";
  }
  EXPECT_NEAR(found.per_second * factor / 1e9, 100, 20) << "GB/s of bus bandwidth, far below the 400 of its ports";
}

TEST(Rate, ReadsWhatItWrites) {
  const Rate rate{.start = Seconds(3e-6), .per_second = 5e9, .points = {{10, Seconds(1)}, {20, Seconds(2)}}};
  const auto again = Rate::from(rate.json(), "rate");
  EXPECT_DOUBLE_EQ(again.start.count(), 3e-6);
  EXPECT_EQ(again.per_second, 5e9);
  ASSERT_EQ(again.points.size(), 2U);
  EXPECT_EQ(again.points[1].time.count(), 2);
}

TEST(Rate, RefusesWhatIsNone) {
  for (const auto* words : {R"([1])", R"({"per_second": -1})", R"({"per_second": "fast"})", R"({"speed": 1})",
                            R"({"points": [[1, 2, 3]]})", R"({"points": [[2, 1], [1, 1]]})", R"({"points": [[1, 0]]})"})
    EXPECT_THROW(Rate::from(parse_json(words), "copies"), UsageError) << words;
  EXPECT_THROW(fitted({{1, Seconds(1)}}), UsageError);
}

}  // namespace
}  // namespace shade::plan
