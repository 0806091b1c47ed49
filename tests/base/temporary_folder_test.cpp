#include "shade/base/temporary_folder.h"

#include <gtest/gtest.h>

#include <fstream>

#include "shade/base/error.h"

namespace shade {
namespace {

namespace fs = std::filesystem;

TEST(TemporaryFolder, IsNewAndGoesWithAllThatIsInIt) {
  fs::path first, second;
  {
    const TemporaryFolder one("shade_test"), other("shade_test");
    first = one.path(), second = other.path();
    EXPECT_NE(first, second);
    EXPECT_TRUE(first.filename().string().starts_with("shade_test_")) << first;
    EXPECT_EQ(one / "file", first / "file");
    EXPECT_EQ(fs::status(first).permissions(), fs::perms::owner_all);
    fs::create_directories(first / "a/b");
    std::ofstream(first / "a/b/file") << "words";
  }
  EXPECT_FALSE(fs::exists(first));
  EXPECT_FALSE(fs::exists(second));
}

TEST(TemporaryFolder, SaysWhereNoneCanBeMade) { EXPECT_THROW(TemporaryFolder("absent/shade_test"), Error); }

}  // namespace
}  // namespace shade
