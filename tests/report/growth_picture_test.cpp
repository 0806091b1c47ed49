#include <gtest/gtest.h>
#include <unistd.h>

#include "shade/base/error.h"
#include "shade/report/report.h"
#include "tests/report/picture.h"

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

TEST(GrowthPicture, DrawsEveryPhaseOfEveryMethod) {
  const Json scan{{"phases",
                   {phase("ghost", "norms", 0.6, "O(T)"), phase("ghost", "step", 1, "mixed"),
                    phase("flash", "it's \"norms\"`", 0.2, "undecided"), phase("flash", "step", 1, "O(T)")}}};
  const auto picture = growth_picture(scan);
  EXPECT_EQ(picture.name, "growth");
  for (const auto* words : {"norms: O(T)", "step: mixed", "logscale x", "logscale y", "layout 1,2"})
    EXPECT_NE(picture.script.find(words), std::string::npos) << words << "\n" << picture.script;
  EXPECT_EQ(picture.script.find('`'), std::string::npos) << "gnuplot runs what is in backquotes";
  if (!find_gnuplot()) GTEST_SKIP() << "gnuplot is not installed";
  const auto folder = std::filesystem::path(testing::TempDir()) / text("growth_", ::getpid());
  EXPECT_EQ(write_growth_picture(scan, folder), "");
  const auto drawn = test::decode_picture(folder / "visualizations/growth.png");
  EXPECT_EQ(drawn.width, 1700u);
  EXPECT_GT(drawn.colours, 10u);
  EXPECT_GT(drawn.drawn, 0.01);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace shade::report
