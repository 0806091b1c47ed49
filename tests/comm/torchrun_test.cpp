// Worlds made by PyTorch's own launcher, from the peers flavour.
#include <gtest/gtest.h>

#include <filesystem>

#include "shade/base/json.h"
#include "tests/support/process.h"

namespace shade::comm {
namespace {

std::string torchrun() { return test::source_root() + "/.deps/peers/bin/torchrun"; }

struct Torchrun : testing::Test {
  void SetUp() override {
    if (!std::filesystem::exists(torchrun())) GTEST_SKIP() << "no torchrun: run tools/bootstrap peers";
  }
};

TEST_F(Torchrun, ItsAgentsStoreIsUsed) {
  const auto file = std::filesystem::path(testing::TempDir()) / text("torchrun_", ::getpid(), ".json");
  const auto seen = test::run({torchrun(), "--no-python", "--nproc_per_node", "2", test::shade_binary(), "comm",
                               "--sizes", "64KiB", "--num-iter", "2", "--json", file.string()},
                              {.limit = Seconds(120)});
  ASSERT_EQ(seen.status, 0) << seen.output;
  const auto rows = read_json(file)["rows"];
  EXPECT_EQ(rows.size(), 5u);
  EXPECT_EQ(rows[0]["ranks"], 2);
  std::filesystem::remove(file);
}

TEST_F(Torchrun, AStatedSizeIsCheckedAgainstItsWorld) {
  const auto seen =
      test::run({torchrun(), "--no-python", "--nproc_per_node", "2", test::shade_binary(), "comm", "--ranks", "4"},
                {.limit = Seconds(120)});
  EXPECT_NE(seen.status, 0);
  const std::string words = "--ranks 4 was asked for, but torchrun made a world of 2";
  const auto first = seen.output.find(words);
  EXPECT_NE(first, std::string::npos) << seen.output;
  EXPECT_EQ(seen.output.rfind(words), first) << "printed once for both ranks\n" << seen.output;
}

}  // namespace
}  // namespace shade::comm
