// What pictures draw, read from their scripts.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/report/canvas.h"
#include "shade/report/pictures.h"
#include "tests/io/scratch.h"
#include "tests/report/sample_rows.h"

namespace shade::report {
namespace {

using test::SampleRow;

std::string script_of(const std::vector<Json>& rows, const std::string& name) {
  const io::Scratch scratch;
  for (size_t i = 0; i < rows.size(); ++i) std::ofstream(scratch.path() / text(i, ".json")) << rows[i].dump();
  for (const auto& picture : pictures_of(read_results(scratch.path())))
    if (picture.name == name) return picture.script;
  ADD_FAILURE() << "no " << name;
  return "";
}

std::vector<Json> json_of(const std::vector<SampleRow>& rows) {
  std::vector<Json> out;
  for (const auto& row : rows) out.push_back(test::result_of(row));
  return out;
}

std::vector<std::string> labels_of(const std::string& script) {
  const std::regex label("set label \"([^\"]*)\"");
  std::vector<std::string> out;
  for (std::sregex_iterator at(script.begin(), script.end(), label), end; at != end; ++at) out.push_back((*at)[1]);
  return out;
}

size_t count_labels(const std::string& script, const std::string& words) {
  const auto labels = labels_of(script);
  return static_cast<size_t>(std::count(labels.begin(), labels.end(), words));
}

// Lines of numbers of $name.
std::vector<std::vector<double>> block_of(const std::string& script, const std::string& name) {
  const auto mark = "$" + name + " << EOD\n";
  const auto begin = script.find(mark);
  if (begin == std::string::npos) return {};
  const auto end = script.find("EOD", begin + mark.size());
  std::vector<std::vector<double>> out;
  for (const auto& line : split(trim(script.substr(begin + mark.size(), end - begin - mark.size())), '\n')) {
    if (line.empty()) continue;
    out.emplace_back();
    for (const auto& word : split(line, ' ')) out.back().push_back(std::stod(word));
  }
  return out;
}

// From a millisecond and a megabyte to minutes and gigabytes.
TEST(Pictures, AxesAndValuesHaveOneUnit) {
  std::vector<SampleRow> rows;
  for (const auto* dp : {"none", "ghost"})
    for (const double grows : {0.02, 1.0, 15.0, 300.0})
      rows.push_back({.dp = dp, .shard = "zero3", .seq = std::lround(grows * 100), .grows = grows});
  const std::regex unit("(?:[0-9] |\\(|over )(us|ms|s|min|KiB|MiB|GiB)\\b");
  const io::Scratch scratch;
  const auto all = json_of(rows);
  for (size_t i = 0; i < all.size(); ++i) std::ofstream(scratch.path() / text(i, ".json")) << all[i].dump();
  const auto pictures = pictures_of(read_results(scratch.path()));
  EXPECT_GE(pictures.size(), 8U);
  for (const auto& picture : pictures) {
    std::set<std::string> times, amounts;
    for (const auto& label : labels_of(picture.script))
      for (std::sregex_iterator at(label.begin(), label.end(), unit), end; at != end; ++at)
        ((*at)[1].str().ends_with("iB") ? amounts : times).insert((*at)[1]);
    EXPECT_LE(times.size(), 1U) << picture.name << ": " << testing::PrintToString(times);
    // Memory and the bytes that are sent have axes of their own; so has what is added to a peak.
    EXPECT_LE(amounts.size(), 1U) << picture.name << ": " << testing::PrintToString(amounts);
  }
}

TEST(Pictures, BarsAreAsLongAsTheNumberBehindThem) {
  std::vector<SampleRow> rows;
  for (const int64_t seq : {1, 2, 3})
    rows.push_back({.seq = 100 * seq, .grows = 1.5944 + 0.0004 * static_cast<double>(seq)});
  for (const auto* picture : {"memory_comparison", "memory_breakdown_comparison"}) {
    auto results = json_of(rows);
    for (auto& row : results) {  // kinds too small for the legend
      const double part = 0.009 * row["peak_memory_mb"].get<double>();
      row["breakdown"]["activations"] = row["breakdown"]["activations"].get<double>() - 2 * part;
      row["breakdown"]["data"] = part;
      row["breakdown"]["communication"] = part;
    }
    const auto script = script_of(results, picture);
    std::multiset<double> drawn;
    std::map<double, double> ends;  // by height
    for (const auto& box : block_of(script, "boxes")) ends[box[1]] = std::max(ends[box[1]], box[3]);
    for (const auto& [y, end] : ends) drawn.insert(std::round(1e6 * end) / 1e6);
    EXPECT_EQ(drawn, (std::multiset<double>{159, 160, 160})) << picture << "\n" << script;
    EXPECT_EQ(count_labels(script, "159 MiB"), 1U) << picture;
    EXPECT_EQ(count_labels(script, "160 MiB"), 2U) << picture;
  }
}

TEST(Pictures, SubtitlesAreWrappedNotCut) {
  std::vector<std::string> words;
  for (int i = 0; i < 30; ++i) words.push_back(text("setting ", i));
  Canvas canvas("title", join(words, ", "));
  canvas.panel({.bottom = 100, .script = "plot NaN\n"});
  const auto labels = labels_of(canvas.picture().script);
  ASSERT_EQ(labels.size(), 4U) << join(labels, " | ");
  EXPECT_EQ(join(std::vector(labels.begin() + 1, labels.end()), " "), join(words, ", "));
  const auto endless = Canvas("title", std::string(100'000, 'm')).y();
  EXPECT_LT(endless, 120);
}

TEST(Pictures, PointsOfOneBatchSizeAreNextToEachOther) {
  const auto script = script_of(json_of(test::eighteen_rows()), "tokens_per_second");
  std::vector<double> first;
  double second = 1e9;
  for (size_t line = 0; line < 6; ++line) {
    const auto points = block_of(script, text("s", line));
    ASSERT_EQ(points.size(), 3U) << line;
    first.push_back(points[0][0]);
    second = std::min(second, points[1][0]);
  }
  std::sort(first.begin(), first.end());
  const double per_px = 1.1 * 2 / 890;  // of log2(8) - log2(2) and its margins
  for (size_t i = 1; i < first.size(); ++i) EXPECT_GE(first[i] - first[i - 1], 8 * per_px);
  EXPECT_LT(first.back() - 1, 0.5) << "nearer to its own batch size";
  EXPECT_GT(second - 1, 0.5);
}

TEST(Pictures, AHeatmapHasAScaleOfItsColours) {
  const auto script = script_of(json_of(test::eighteen_rows()), "utilisation_heatmap");
  const auto scale = block_of(script, "scale");
  ASSERT_GE(scale.size(), 10U);
  EXPECT_LT(scale.front()[2], 5);
  EXPECT_GT(scale.back()[2], 95);
  EXPECT_EQ(count_labels(script, "% of the step"), 1U);
}

// Twelve rows at one point: their numbers don't have room next to it.
TEST(Pictures, NumbersAwayFromTheirPointAreJoinedToIt) {
  std::vector<SampleRow> rows;
  for (int64_t i = 1; i <= 12; ++i) rows.push_back({.seq = 100 * i});
  const auto script = script_of(json_of(rows), "memory_vs_time_tradeoff");
  const auto lines = block_of(script, "leaders");
  ASSERT_GE(lines.size(), 3U);
  std::set<std::vector<double>> dots;
  for (const auto& dot : block_of(script, "dots")) dots.insert({dot[0], dot[1]});
  for (const auto& line : lines) EXPECT_TRUE(dots.contains({line[0], line[1]}));
}

TEST(Pictures, StepsShareOneLegend) {
  const auto script = script_of(json_of({{.dp = "none"}, {.dp = "ghost"}, {.dp = "flash"}}), "step_timeline");
  EXPECT_EQ(count_labels(script, "phases"), 3U);
  EXPECT_EQ(count_labels(script, "activations"), 1U);
  EXPECT_EQ(count_labels(script, "parameters"), 1U);
}

}  // namespace
}  // namespace shade::report
