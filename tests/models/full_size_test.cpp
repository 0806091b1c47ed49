// A full-size checkpoint is loaded by a process that holds the weights once.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "shade/base/json.h"
#include "tests/support/process.h"

namespace shade::models {
namespace {

struct FullSize : testing::Test {
  void SetUp() override {
    const auto place = std::filesystem::temp_directory_path();
    const auto room = std::filesystem::space(place).available;
    if (room < 4'000'000'000) GTEST_SKIP() << place << " has " << room << " bytes left; 4 GB are needed, set TMPDIR";
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  // A program beside this one.
  static std::string program(const char* name) {
    return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
  }

  std::filesystem::path folder = std::filesystem::temp_directory_path() / text("shade_full_size_", ::getpid());
};

TEST_F(FullSize, LoadingHoldsTheWeightsOnce) {
  const auto written =
      test::run({program("random_checkpoint"), "qwen2-1.5b", folder.string()}, {.limit = Seconds(400)});
  ASSERT_EQ(written.status, 0) << written.output;
  const auto loaded = test::run({program("load_memory"), folder.string()}, {.limit = Seconds(120)});
  ASSERT_EQ(loaded.status, 0) << loaded.output;
  std::printf("%s", loaded.output.c_str());
  const auto seen = Json::parse(loaded.output);
  const auto files = seen["files_bytes"].get<double>();
  EXPECT_GT(files, 3.08e9);
  EXPECT_EQ(seen["tensors_peak_bytes"], seen["weights_bytes"]);
  EXPECT_LE(seen["resident_peak_bytes"].get<double>() / files, 1.15) << "pages of mapped files count too";
}

}  // namespace
}  // namespace shade::models
