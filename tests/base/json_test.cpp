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
  std::ofstream(folder / "bad.json") << "{\"a\": 1e3082}";  // the parser has another exception for it
  EXPECT_THROW(read_json(folder / "bad.json"), Error);
}

// Printed in a message, a value of a million levels would end the process.
TEST_F(JsonTest, DeepNestingIsRefused) {
  const auto nested = [](size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); };
  EXPECT_EQ(parse_json(nested(200)).dump(), nested(200));
  for (const size_t levels : {size_t{202}, size_t{1000000}}) {
    EXPECT_THROW(parse_json(nested(levels)), Error) << levels;
    std::ofstream(folder / "deep.json") << nested(levels);
    EXPECT_THROW(read_json(folder / "deep.json"), Error) << levels;
  }
}

}  // namespace
}  // namespace shade
