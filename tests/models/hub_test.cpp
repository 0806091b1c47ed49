// Names of the Hugging Face hub, and copies in its cache.
#include "shade/models/hub.h"
#include "shade/base/json.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "shade/io/errors.h"
#include "shade/models/registry.h"
#include "shade/models/weights.h"
#include "tests/io/scratch.h"
#include "tests/support/fault.h"

namespace shade::models {
namespace {

namespace fs = std::filesystem;

struct HubTest : testing::Test {
  HubTest() {
    for (const char* name : {"HF_HUB_CACHE", "XDG_CACHE_HOME"}) ::unsetenv(name);
    ::setenv("HF_HOME", scratch.path().c_str(), 1);
  }
  ~HubTest() override { ::unsetenv("HF_HOME"); }

  // As `hf download` leaves it, with links to files named by their content.
  fs::path make_copy(const std::string& folder, const std::string& commit) const {
    const auto root = scratch.path() / "hub" / folder, snapshot = root / "snapshots" / "c0ffee";
    for (const auto& place : {root / "refs", root / "blobs", snapshot}) fs::create_directories(place);
    std::ofstream(root / "refs" / "main") << commit;
    std::ofstream(root / "blobs" / "1") << make_model("llama-nano", {}, {})->config_json();
    fs::create_symlink("../../blobs/1", snapshot / "config.json");
    return snapshot;
  }

  io::Scratch scratch;
};

int64_t layers(const std::string& name) {
  return parse_json(make_model(name, {.num_layers = 0}, {})->config_json()).at("num_hidden_layers").get<int64_t>();
}

TEST_F(HubTest, ACopyInTheCacheIsUsed) {
  EXPECT_EQ(hub_copy("Qwen/Qwen2-1.5B"), std::nullopt);
  EXPECT_EQ(model_folder("Qwen/Qwen2-1.5B"), std::nullopt);
  const auto snapshot = make_copy("models--Qwen--Qwen2-1.5B", "c0ffee\n");
  EXPECT_EQ(hub_copy("Qwen/Qwen2-1.5B"), snapshot);
  EXPECT_EQ(model_folder("Qwen/Qwen2-1.5B"), snapshot);
  EXPECT_EQ(layers("Qwen/Qwen2-1.5B"), 2) << "of the copy, not the 28 of the name";
  EXPECT_EQ(describe_hub_name("Qwen/Qwen2-1.5B"), "Qwen/Qwen2-1.5B is read from " + snapshot.string());
}

TEST_F(HubTest, TheVariablesSayWhereTheCacheIs) {
  EXPECT_EQ(hub_cache(), scratch.path() / "hub");
  ::setenv("HF_HUB_CACHE", "/elsewhere", 1);
  EXPECT_EQ(hub_cache(), "/elsewhere");
  ::unsetenv("HF_HUB_CACHE");
  ::unsetenv("HF_HOME");
  ::setenv("XDG_CACHE_HOME", "/cache", 1);
  EXPECT_EQ(hub_cache(), "/cache/huggingface/hub");
}

TEST_F(HubTest, AReferenceThatLeadsOutOfTheCacheIsNone) {
  make_copy("models--a--b", "../snapshots/c0ffee");
  EXPECT_EQ(hub_copy("a/b"), std::nullopt);
  EXPECT_FALSE(is_hub_name("../b"));
  EXPECT_FALSE(is_hub_name("a/b/c"));
  EXPECT_FALSE(is_hub_name("/b"));
}

// A snapshot's files may be links to the blobs of the same model, and to nothing else.
TEST_F(HubTest, ASnapshotReadsTheBlobsOfItsModelAlone) {
  const auto snapshot = make_copy("models--a--b", "c0ffee");
  fs::rename(snapshot / "../../blobs/1", scratch.path() / "elsewhere");
  fs::remove(snapshot / "config.json");
  fs::create_symlink(scratch.path() / "elsewhere", snapshot / "config.json");
  EXPECT_NE(test::fault<io::FormatError>([] { make_model("a/b", {}, {}); }).find("outside the model's folder"),
            std::string::npos);
  EXPECT_NE(test::fault<io::FormatError>([&] { not_trained_with(snapshot); }).find("outside the model's folder"),
            std::string::npos);
  EXPECT_NE(test::fault<io::FormatError>([&] { type_of_weights(snapshot); }).find("outside the model's folder"),
            std::string::npos);
  const auto main = snapshot / "../../refs/main";
  fs::rename(main, scratch.path() / "main");
  fs::create_symlink(scratch.path() / "main", main);
  EXPECT_NE(test::fault<io::FormatError>([] { hub_copy("a/b"); }).find("outside the model's folder"),
            std::string::npos);
}

TEST_F(HubTest, WithoutACopyANameStandsForItsSizes) {
  EXPECT_EQ(hub_size("meta-llama/Llama-3.1-8B-Instruct"), "llama3.1-8b");
  for (const auto& [hub, size] : kHubModels) {
    EXPECT_EQ(layers(std::string(hub)), layers(std::string(size))) << hub;
    const auto words = describe_hub_name(std::string(hub));
    EXPECT_NE(words.find(text("stands for the sizes of ", size, ", with random weights")), std::string::npos) << words;
  }
  const auto seen = test::fault([] { make_model("someone/else", {}, {}); });
  for (const char* part : {"no copy of someone/else", "hf download someone/else", "--model-folder", "llama, mistral"})
    EXPECT_NE(seen.find(part), std::string::npos) << seen;
}

TEST_F(HubTest, OwnNamesAreNoHubNames) {
  EXPECT_EQ(parse_json(make_model("DiT-XL/2", {.num_layers = 1}, {})->config_json()).at("patch_size"), 2);
  EXPECT_EQ(describe_hub_name("DiT-XL/2"), "");
  EXPECT_EQ(describe_hub_name("llama3-8b"), "");
  EXPECT_EQ(layers("Llama3-8B"), 32);
}

}  // namespace
}  // namespace shade::models
