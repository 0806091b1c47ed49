#include "shade/plan/device_profile.h"

#include <gtest/gtest.h>

#include <set>

#include "shade/base/error.h"

namespace shade::plan {
namespace {

TEST(DeviceProfile, ElevenAreKnown) {
  std::set<std::string> names;
  for (const auto& profile : known_profiles()) {
    SCOPED_TRACE(profile.name);
    EXPECT_TRUE(names.insert(profile.name).second);
    EXPECT_FALSE(profile.source.empty());
    for (const auto* type : {"bf16", "tf32", "fp32"}) EXPECT_TRUE(profile.products.at(type).known()) << type;
    EXPECT_LT(profile.products.at("bf16").per_second, profile.bf16_spec) << "reachable is less than stated";
    EXPECT_LE(profile.products.at("fp32").per_second, profile.products.at("bf16").per_second);
    EXPECT_LT(profile.elementwise.per_second, profile.memory_spec);
    EXPECT_LT(profile.network.reachable, profile.inside.spec);
    EXPECT_GE(profile.memory, GiB(24));
  }
  EXPECT_EQ(names.size(), 11U);
}

TEST(DeviceProfile, HasPublishedFigures) {
  const auto h100 = device_profile("h100-80g");
  EXPECT_EQ(h100.memory, GiB(80));
  EXPECT_DOUBLE_EQ(h100.bf16_spec, 989e12);
  EXPECT_NEAR(h100.products.at("bf16").per_second, 794.5e12, 1e6);
  EXPECT_NEAR(h100.attention.per_second, 0.35 * 989e12, 1e6);
  EXPECT_NEAR(device_profile("a100-80g").attention.per_second, 0.615 * 312e12, 1e6);
  EXPECT_NEAR(h100.contention, 0.61, 0.01);
  EXPECT_EQ(&h100.product_rate(c10::ScalarType::BFloat16), &h100.products.at("bf16"));
  EXPECT_EQ(&h100.product_rate(c10::ScalarType::Float), &h100.products.at("fp32")) << "TF32 is off by default";
  EXPECT_THROW(h100.product_rate(c10::ScalarType::Double), UsageError);
}

TEST(DeviceProfile, NarrowProductsPayForATile) {
  const auto h100 = device_profile("h100-80g");
  EXPECT_DOUBLE_EQ(h100.width_share(16), 0.25);
  EXPECT_DOUBLE_EQ(h100.width_share(64), 1);
  EXPECT_DOUBLE_EQ(h100.width_share(4096), 1);
  EXPECT_DOUBLE_EQ(DeviceProfile{}.width_share(1), 1);
}

TEST(DeviceProfile, ReadsWhatItWrites) {
  auto profile = device_profile("mi300x-192g");
  profile.operators["silu"] = {.per_second = 7e9};
  profile.collectives.push_back({.kind = comm::Collective::all_gather,
                                 .ranks = 4,
                                 .nodes = 2,
                                 .rate = {.points = {{1024, Seconds(1e-4)}, {4096, Seconds(2e-4)}}}});
  profile.asynchronous = false;
  profile.contention = 0.25;
  EXPECT_EQ(DeviceProfile::from(profile.json()).json(), profile.json());
}

TEST(DeviceProfile, FileTakesThePlaceOfAName) {
  const auto file = std::filesystem::temp_directory_path() / "shade_device_profile_test.json";
  auto json = device_profile("a10g-24g").json();
  json["name"] = "";
  write_json(file, json);
  EXPECT_EQ(device_profile(file.string()).name, "shade_device_profile_test");
  json["memory_speed"] = 1;
  write_json(file, json);
  try {
    device_profile(file.string());
    ADD_FAILURE() << "an unknown key passed";
  } catch (const UsageError& fault) {
    EXPECT_NE(std::string(fault.what()).find("memory_speed"), std::string::npos) << fault.what();
    EXPECT_NE(std::string(fault.what()).find(file.string()), std::string::npos) << fault.what();
  }
  std::filesystem::remove(file);
}

TEST(DeviceProfile, UnknownNameListsAll) {
  try {
    device_profile("h100-80");
    ADD_FAILURE() << "an unknown name passed";
  } catch (const UsageError& fault) {
    for (const auto& profile : known_profiles())
      EXPECT_NE(std::string(fault.what()).find(profile.name), std::string::npos) << fault.what();
    EXPECT_NE(std::string(fault.what()).find("did you mean 'h100-80g'"), std::string::npos) << fault.what();
  }
}

TEST(DeviceProfile, RefusesWhatCantBeUsed) {
  const auto good = device_profile("l4-24g").json();
  const auto refuses = [&](const char* key, const Json& value) {
    auto bad = good;
    bad[key] = value;
    EXPECT_THROW(DeviceProfile::from(bad), UsageError) << key << ": " << value;
  };
  refuses("launch_us", -1);
  refuses("contention", 1);
  refuses("ranks_per_node", 0);
  refuses("products", Json::object());
  refuses("elementwise", Json::object());
  refuses("widths", Json::array({Json::array({64, 1}), Json::array({16, 1})}));
  refuses("inside", {{"speed", 3}});
  refuses("collectives", Json::array({{{"collective", "all_gather"}, {"ranks", 1}, {"rate", {{"per_second", 1}}}}}));
  EXPECT_THROW(DeviceProfile::from(Json::array()), UsageError);
}

}  // namespace
}  // namespace shade::plan
