// The program as a user meets it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "shade/base/error.h"
#include "shade/base/json.h"
#include "tests/support/process.h"

namespace shade {
namespace {

test::Outcome shade(std::vector<std::string> words) {
  words.insert(words.begin(), test::shade_binary());
  return test::run(words);
}

TEST(Cli, VersionNamesEverything) {
  const auto seen = shade({"--version"});
  EXPECT_EQ(seen.status, 0);
  for (const char* part : {"shade 0.1.0 (", "libtorch 2.15.0", "compiler ", "backends gloo, simulated, nccl "})
    EXPECT_NE(seen.output.find(part), std::string::npos) << part;
}

TEST(Cli, HelpShowsDefaultsUnitsAndAnExample) {
  const auto seen = shade({"comm", "--help"});
  EXPECT_EQ(seen.status, 0);
  for (const char* part : {"--sizes,--collectives.sizes", "[1MiB,4MiB,16MiB,64MiB]", "--comm.peer_timeout", "[10.0s]",
                           "Example:\n  shade comm --ranks 2", "--json", "--log-level", "--ranks"})
    EXPECT_NE(seen.output.find(part), std::string::npos) << part << "\n" << seen.output;
  EXPECT_NE(shade({}).output.find("launch"), std::string::npos);
}

TEST(Cli, TyposAreAnsweredWithWhatWasMeant) {
  EXPECT_EQ(shade({"com"}).output, "shade: unknown verb 'com'; did you mean 'comm'? (shade --help lists them)\n");
  const auto seen = shade({"comm", "--szies", "1MiB"});
  EXPECT_EQ(seen.status, 2);
  EXPECT_EQ(seen.output,
            "shade comm: unknown option '--szies'; did you mean '--sizes'?\n"
            "  shade comm --help shows the options.\n");
  EXPECT_NE(shade({"comm", "--sizes", "64M"}).output.find("collectives.sizes: '64M' is not a size"), std::string::npos);
  EXPECT_NE(shade({"comm", "--log-level", "loud"}).output.find("log level 'loud' is unknown"), std::string::npos);
  EXPECT_NE(shade({"comm"}).output.find("a world of one rank has no collectives to measure; add --ranks 2"),
            std::string::npos);
}

TEST(Cli, FilesAndOptionsBecomeOneConfiguration) {
  const auto folder = std::filesystem::path(testing::TempDir()) / text("cli_", ::getpid());
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "c.toml") << "[collectives]\nsizes = [\"1KiB\", \"2KiB\"]\niterations = 3\n";
  const auto seen = shade({"comm", "--ranks", "2", "--config", (folder / "c.toml").string(), "--num-iter", "1",
                           "--collectives", "all_gather", "--json", (folder / "out.json").string()});
  ASSERT_EQ(seen.status, 0) << seen.output;
  const auto result = read_json(folder / "out.json");
  EXPECT_EQ(result["config"]["collectives"]["iterations"], 1) << "the option wins";
  EXPECT_EQ(result["config"]["collectives"]["sizes"], Json::array({1024, 2048}));
  ASSERT_EQ(result["rows"].size(), 2u);
  const auto& row = result["rows"][1];
  EXPECT_EQ(row["collective"], "all_gather");
  EXPECT_EQ(row["bytes"], 2048);
  EXPECT_EQ(row["dtype"], "fp32");
  EXPECT_DOUBLE_EQ(row["ratio"], row["ours_ms"].get<double>() / row["stock_ms"].get<double>());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace shade
