// A folder of results of shade audit: its table and its picture.
#include "shade/report/audits.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "shade/base/error.h"
#include "shade/report/report.h"
#include "tests/report/picture.h"

namespace shade::report {
namespace {

struct Audits : testing::Test {
  std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / text("audits_", ::getpid());

  Audits() { std::filesystem::create_directories(folder); }
  ~Audits() override { std::filesystem::remove_all(folder); }
  void write(const std::string& name, const Json& json) const { std::ofstream(folder / name) << json.dump(); }
  static Json result(const std::string& kind, const std::string& fault, double found, int64_t canaries = 0) {
    Json out{{"kind", kind},
             {"claimed_epsilon", 4.5},
             {"lower_epsilon", found},
             {"verdict", found > 4.5 ? "wrong" : "stands"},
             {"config", {{"audit", {{"fault", fault}}}}}};
    if (canaries > 0) out["canaries"] = canaries;
    if (canaries == 0) out["trainings"] = 300;
    return out;
  }
};

TEST_F(Audits, AreATableOfFaultsAndKinds) {
  EXPECT_FALSE(holds_audits(folder));
  EXPECT_THROW(read_audits(folder), UsageError);
  write("a.json", result("training", "half_noise", 9.25));
  write("b.json", result("one_run", "none", 0.75, 50));
  write("c.json", result("one_run", "none", 1.25, 500));
  write("foreign.json", Json{{"epsilon", 3}});
  std::ofstream(folder / "broken.json") << "{";
  EXPECT_TRUE(holds_audits(folder));
  const auto rows = read_audits(folder);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows.front().kind, "training");
  const auto table = summary_of(rows);
  for (const auto* words : {"half_noise", "9.25 of 4.50: wrong", "1.25 of 4.50: stands"})
    EXPECT_NE(table.find(words), std::string::npos) << words << "\n" << table;
  write("bench.json", Json{{"mode", "ghost"}});
  EXPECT_FALSE(holds_audits(folder)) << "results of shade bench have a report of their own";
  EXPECT_EQ(table.find("0.750"), std::string::npos) << "of several sizes the largest is in the table";
}

TEST_F(Audits, ArePicturedOverCanaries) {
  write("t.json", result("training", "none", 3));
  EXPECT_TRUE(audits_picture(read_audits(folder)).script.empty()) << "no audit has several canaries";
  for (const int64_t canaries : {30, 100, 300}) {
    write(text("n", canaries, ".json"), result("one_run", "none", 1, canaries));
    write(text("f", canaries, ".json"), result("model", "it's `no clip`", 5, canaries));
  }
  const auto picture = audits_picture(read_audits(folder));
  for (const auto* words : {"claimed: 4.50", "one_run: as it is", "canaries in one training"})
    EXPECT_NE(picture.script.find(words), std::string::npos) << words << "\n" << picture.script;
  EXPECT_EQ(picture.script.find('`'), std::string::npos) << "gnuplot runs what is in backquotes";
  if (!find_gnuplot()) GTEST_SKIP() << "gnuplot is not installed";
  const auto report = write_audit_report(folder, folder / "out");
  EXPECT_TRUE(report.warnings.empty()) << report.warnings.front();
  EXPECT_TRUE(report.has_pictures());
  EXPECT_GT(test::decode_picture(folder / "out/visualizations/audits.png").drawn, 0.01);
}

}  // namespace
}  // namespace shade::report
