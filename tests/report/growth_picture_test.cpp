#include <gtest/gtest.h>
#include <unistd.h>

#include <regex>
#include <set>

#include "shade/base/error.h"
#include "shade/report/report.h"
#include "tests/io/scratch.h"
#include "tests/report/picture.h"
#include "tests/report/sample_rows.h"

namespace shade::report {
namespace {

Json phase(const std::string& method, const std::string& name, double share, const std::string& verdict) {
  Json out{{"phase", name}, {"method", method}, {"verdict", verdict}, {"points", Json::array()}};
  for (const double length : {512.0, 1024.0, 2048.0}) {
    const double ms = 100 * share * length / 2048;
    out["points"].push_back({{"seq_length", length}, {"ms", ms}, {"fit", ms}, {"runs", {ms, ms * 1.1, 0.0}}});
  }
  out["shares"] = {{"constant", 0.0}, {"linear", 1.0}, {"square", 0.0}};
  return out;
}

TEST(GrowthPicture, DrawsEveryLargePhaseOfEveryMethod) {
  const Json scan{{"phases",
                   {phase("ghost", "norms", 0.6, "O(T)"), phase("ghost", "hash", 0.01, "constant"),
                    phase("ghost", "step", 1, "mixed"), phase("flash", "it's \"norms\"`", 0.2, "undecided"),
                    phase("flash", "step", 1, "O(T)")}}};
  const auto picture = growth_picture(scan, "llama 64 x 2, 2 ranks");
  EXPECT_EQ(picture.name, "growth");
  EXPECT_EQ(picture.width, 1000);
  for (const auto* words : {"norms: O(T)", "step: mixed", "llama 64 x 2, 2 ranks", "(ms) on logarithmic axes",
                            "below 2 % of the step at every length: hash"})
    EXPECT_NE(picture.script.find(words), std::string::npos) << words << "\n" << picture.script;
  EXPECT_EQ(picture.script.find("hash: constant"), std::string::npos) << "too small to be drawn";
  EXPECT_EQ(picture.script.find('`'), std::string::npos) << "gnuplot runs what is in backquotes";
  if (!find_gnuplot()) GTEST_SKIP() << "gnuplot is not installed";
  const auto folder = std::filesystem::path(testing::TempDir()) / text("growth_", ::getpid());
  EXPECT_EQ(write_growth_picture(scan, {test::result_of({.shard = "zero3"})}, folder), "");
  EXPECT_NE(io::content(folder / "visualizations/scripts/growth.gp").find("llama-nano"), std::string::npos);
  const auto drawn = test::decode_picture(folder / "visualizations/growth.png");
  EXPECT_EQ(drawn.width, 1000u);
  EXPECT_GT(drawn.colours, 10u);
  EXPECT_GT(drawn.drawn, 0.01);
  std::filesystem::remove_all(folder);
}

// As many as a step has: no colour is used twice, no run of another size stretches the axis.
TEST(GrowthPicture, FourteenPhasesHaveColoursOfTheirOwn) {
  Json scan{{"phases", Json::array()}};
  for (int i = 0; i < 12; ++i) scan["phases"].push_back(phase("ghost", text("phase", i), 0.07, "O(T)"));
  scan["phases"].push_back(phase("ghost", "step", 1, "O(T)"));
  scan["phases"][0]["points"][0]["runs"].push_back(1e-5);
  const auto script = growth_picture(scan, "").script;
  std::set<std::string> colours;
  const std::regex line("lines lw 2 lc rgb '(#[0-9a-f]+)'");
  for (std::sregex_iterator at(script.begin(), script.end(), line), end; at != end; ++at) colours.insert((*at)[1]);
  EXPECT_EQ(colours.size(), 13U);
  EXPECT_NE(script.find("(1 below the axis)"), std::string::npos);
}

}  // namespace
}  // namespace shade::report
