#include "shade/base/json.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "shade/base/error.h"

namespace shade {
namespace {

struct JsonTest : testing::Test {
  std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "shade_json_test";
  JsonTest() { std::filesystem::create_directories(folder); }
  ~JsonTest() override { std::filesystem::remove_all(folder); }
};

TEST_F(JsonTest, RoundTripKeepsOrderAndLeavesNoTemporary) {
  const auto file = folder / "out.json";
  write_json(file, {{"z", 1}, {"a", {1.5, "two"}}});
  EXPECT_EQ(read_json(file).dump(), R"({"z":1,"a":[1.5,"two"]})");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST_F(JsonTest, FaultsNameTheFile) {
  EXPECT_THROW(read_json(folder / "absent.json"), Error);
  std::ofstream(folder / "bad.json") << "{\"a\": }";
  try {
    read_json(folder / "bad.json");
    FAIL();
  } catch (const Error& fault) {
    EXPECT_NE(std::string(fault.what()).find("bad.json\" is not valid JSON (byte 7)"), std::string::npos)
        << fault.what();
  }
}

}  // namespace
}  // namespace shade
