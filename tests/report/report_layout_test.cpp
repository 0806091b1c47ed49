// Pictures of 1 to 40 rows: no text covers another, leaves the picture or is too small to read.
#include <gtest/gtest.h>

#include <set>

#include "shade/base/error.h"
#include "shade/report/canvas.h"
#include "shade/report/report.h"
#include "shade/report/series.h"
#include "tests/report/drawn_text.h"
#include "tests/report/picture.h"
#include "tests/report/sample_rows.h"

namespace shade::report {
namespace {

namespace fs = std::filesystem;
using test::SampleRow;

class Layout : public testing::Test {
 protected:
  void SetUp() override {
    if (!find_gnuplot()) GTEST_SKIP() << "gnuplot is not installed";
  }
  void write(const std::vector<SampleRow>& rows) {
    for (size_t i = 0; i < rows.size(); ++i)
      std::ofstream(scratch_.path() / text(i, ".json")) << test::result_of(rows[i]).dump();
    const auto report = write_report(scratch_.path(), scratch_.path() / "out");
    for (const auto& warning : report.warnings) ADD_FAILURE() << warning;
  }
  void expect_readable(size_t least = 7) {
    size_t pictures = 0;
    for (const auto& entry : fs::directory_iterator(scratch_.path() / "out/visualizations/scripts")) {
      if (entry.path().extension() != ".gp") continue;
      const auto drawn = test::draw_again(entry.path());
      ++pictures;
      EXPECT_GT(drawn.texts.size(), 4U) << entry.path();
      EXPECT_LE(drawn.width, 2000) << entry.path() << " would be shrunk until its text can't be read";
      for (size_t i = 0; i < drawn.texts.size(); ++i) {
        const auto& one = drawn.texts[i];
        EXPECT_GE(one.px, 10) << entry.path() << ": " << one.words;
        const bool inside = one.x0 >= 0 && one.y0 >= 0 && one.x1 <= drawn.width && one.y1 <= drawn.height;
        EXPECT_TRUE(inside) << entry.path() << ": '" << one.words << "' leaves the picture";
        for (size_t k = 0; k < i; ++k)
          EXPECT_FALSE(one.meets(drawn.texts[k]))
              << entry.path() << ": '" << one.words << "' and '" << drawn.texts[k].words << "'";
      }
    }
    EXPECT_GE(pictures, least);
  }

  io::Scratch scratch_;
};

TEST_F(Layout, OneRow) {
  write({{}});
  expect_readable();
}

TEST_F(Layout, FiveMethods) {
  std::vector<SampleRow> rows;
  for (const auto* dp : {"none", "ghost", "flash", "bookkeeping", "flash_bookkeeping"}) rows.push_back({.dp = dp});
  write(rows);
  expect_readable();
}

TEST_F(Layout, NineRows) {
  std::vector<SampleRow> rows;
  for (const int64_t seq : {1024, 2048, 4096})
    for (const auto* dp : {"none", "ghost", "flash"})
      rows.push_back({.dp = dp, .shard = "zero3", .seq = seq, .grows = static_cast<double>(seq) / 1024});
  write(rows);
  expect_readable();
}

TEST_F(Layout, EighteenRowsWithStrategiesSideBySide) {
  write(test::eighteen_rows());
  expect_readable();
  const auto drawn = test::decode_picture(scratch_.path() / "out/visualizations/memory_comparison.png");
  EXPECT_GT(drawn.count(0xe69f00), 1000U) << "zero2";
  EXPECT_GT(drawn.count(0x009e73), 1000U) << "zero3";
}

TEST_F(Layout, FortyRows) {
  const auto rows = test::forty_rows();
  ASSERT_EQ(rows.size(), 40U);
  write(rows);
  expect_readable();
}

TEST_F(Layout, FortyBatchSizesAndNamesWithoutEnd) {
  std::vector<SampleRow> rows;
  for (int64_t i = 0; i < 40; ++i)
    rows.push_back(
        {.batch = 1 + i, .model = text(std::string(90, 'W'), i), .grows = 1 + 0.01 * static_cast<double>(i)});
  write(rows);
  expect_readable();
}

TEST_F(Layout, GrowthOfManyPhases) {
  Json scan{{"phases", Json::array()}};
  for (const auto* method : {"ghost", "flash"}) {
    for (int i = 0; i < 20; ++i) {
      Json points = Json::array();
      for (const double length : {1000.0, 1100.0, 2000.0, 64'000.0})
        points.push_back({{"seq_length", length}, {"ms", length}, {"runs", {length}}});
      scan["phases"].push_back({{"phase", i == 0 ? std::string("step") : text(std::string(9, 'W'), i)},
                                {"method", method},
                                {"verdict", "faster than O(T^2)"},
                                {"points", points}});
    }
  }
  ASSERT_EQ(write_growth_picture(scan, {test::result_of({})}, scratch_.path() / "out"), "");
  expect_readable(1);
}

TEST_F(Layout, WidthsAreNeverUnderestimated) {
  for (char c = ' '; c <= '~'; ++c)
    EXPECT_GE(text_width(std::string(1, c), 100), test::drawn_width(std::string(1, c), 100)) << c;
  EXPECT_LE(text_width(fitted(std::string(500, 'm'), 12, 200), 12), 200);
  EXPECT_EQ(fitted("short", 12, 200), "short");
}

TEST_F(Layout, StrategiesOfOneShapeAreOneGroup) {
  write({{.shard = "zero2", .batch = 2}, {.shard = "zero3", .batch = 2}, {.shard = "zero2", .batch = 4}});
  const auto results = read_results(scratch_.path());
  const AllSeries series(results);
  ASSERT_EQ(series.list().size(), 2U);
  EXPECT_NE(series.list()[0].colour(), series.list()[1].colour());
  std::vector<const ResultRow*> rows;
  for (const auto& row : results.rows) rows.push_back(&row);
  const auto entries = entries_of(series, rows);
  EXPECT_EQ(entries[0].heading, "batch 2");
  EXPECT_EQ(entries[0].label, "zero2");
  EXPECT_EQ(entries[1].heading, "");
  EXPECT_EQ(entries[1].label, "zero3");
  EXPECT_EQ(entries[2].heading, "batch 4");
}

// A timeline for each mode: a panel with its name.
TEST_F(Layout, EveryModeHasATimeline) {
  write({{.dp = "none"}, {.dp = "ghost"}, {.dp = "flash"}});
  const auto drawn = test::draw_again(scratch_.path() / "out/visualizations/scripts/memory_timeline.gp");
  std::set<std::string> found;
  for (const auto& one : drawn.texts)
    if (const auto at = one.words.find(", highest"); at != std::string::npos && at > 0)
      found.insert(one.words.substr(0, at));
  for (const auto* mode : {"no_dp", "ghost", "flash"}) EXPECT_TRUE(found.contains(mode)) << mode;
}

// The linear model has no texts: one row is one sample.
TEST_F(Layout, SamplesWithoutALengthAreCalledSamples) {
  write({{.shard = "zero2", .seq = 1, .model = "linear"}, {.shard = "zero3", .seq = 1, .model = "linear"}});
  const auto summary = io::content(scratch_.path() / "out/visualizations/summary.txt");
  EXPECT_NE(summary.find("samples/s"), std::string::npos) << summary;
  for (const auto* word : {"tokens/s", "seq 1"}) EXPECT_EQ(summary.find(word), std::string::npos) << summary;
}

}  // namespace
}  // namespace shade::report
