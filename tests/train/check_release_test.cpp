// shade release --check: whether files are those of the statement, and whether that is one.
#include "shade/train/release/check_release.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "shade/base/strings.h"
#include "shade/hash/digest.h"
#include "shade/io/errors.h"
#include "shade/train/release/release.h"
#include "tests/io/scratch.h"
#include "tests/train/visits.h"

namespace shade::train {
namespace {

namespace fs = std::filesystem;

struct ReleaseCheck : VisitsTest {
  Json released(const ReleaseOptions& options = {}) const {
    release(find_run(place("run")).value(), place("out"), options);
    return read_json(place("out/privacy.json"));
  }
  CheckedRelease checked() const { return check_release(place("out")); }
};

TEST_F(ReleaseCheck, BindsTheFiles) {
  train("run");
  released();
  const auto whole = checked();
  EXPECT_TRUE(whole.passed());
  EXPECT_EQ(whole.matching, 7u);
  EXPECT_EQ(whole.statement_sha256, hash::sha256_of(*io::MappedFile::open(place("out/privacy.json"))));
  const auto flip = [&](const std::string& name) {
    auto bytes = io::content(place(name));
    bytes[bytes.size() / 2] ^= 1;
    std::ofstream(place(name), std::ios::binary) << bytes;
  };
  using Names = std::vector<std::string>;
  flip("out/model.safetensors");
  flip("out/PRIVACY.md");
  EXPECT_EQ(checked().different, (Names{"PRIVACY.md", "model.safetensors"}));
  flip("out/model.safetensors");
  flip("out/PRIVACY.md");
  EXPECT_TRUE(checked().passed());
  fs::rename(place("out/config.json"), place("config.json"));
  scratch.write("out/notes.txt", "");
  fs::create_directory_symlink(place("visits"), place("out/more"));
  EXPECT_EQ(checked().missing, Names{"config.json"});
  EXPECT_EQ(checked().extra, (Names{"more", "notes.txt"})) << "a link to a folder is a thing of its own";
  fs::remove(place("out/more"));
  fs::remove(place("out/notes.txt"));
  fs::create_symlink(place("config.json"), place("out/config.json"));
  EXPECT_EQ(checked().different, Names{"config.json"}) << "the same bytes, outside of the folder";
  fs::remove(place("out/config.json"));
  scratch.write("out/config.json", "");
  EXPECT_EQ(checked().different, Names{"config.json"}) << "without a byte";
}

// A statement from elsewhere is untrusted.
TEST_F(ReleaseCheck, RefusesWhatIsNoStatement) {
  train("run");
  const auto good = released();
  const auto refusal = [&](const std::function<void(Json&)>& change) {
    auto json = good;
    change(json);
    fs::remove(place("out/privacy.json"));
    scratch.write("out/privacy.json", json.dump());
    return test::fault<io::FormatError>([&] { checked(); });
  };
  EXPECT_NE(refusal([](Json& json) { json["version"] = 1; }).find("expected version"), std::string::npos);
  EXPECT_NE(refusal([](Json& json) { json["epsilon"] = -5; }).find("'epsilon' must be a finite number from 0 on"),
            std::string::npos);
  for (const auto& change :
       std::vector<std::function<void(Json&)>>{[](Json& json) { json["format"] = "a poem"; },
                                               [](Json& json) { json["version"] = "2"; },
                                               [](Json& json) { json.erase("files"); },
                                               [](Json& json) { json["files"] = Json::array(); },
                                               [](Json& json) { json["files"][0].erase("sha256"); },
                                               [](Json& json) { json["files"][0]["name"] = 1; },
                                               [](Json& json) { json["files"].push_back(json["files"][0]); },
                                               [](Json& json) { json["guarantee"] = "yes"; },
                                               [](Json& json) { json["files"][1]["name"] = "privacy.json"; },
                                               [](Json& json) { json["version"] = 3; },
                                               [](Json& json) { json["version"] = 2.0; },
                                               [](Json& json) { json["released_on"] = "today"; },
                                               [](Json& json) { json["delta"] = 7; },
                                               [](Json& json) { json["delta"] = "1e-05"; },
                                               [](Json& json) { json["delta"] = 0; },
                                               [](Json& json) { json["epsilon"] = "?"; },
                                               [](Json& json) { json["epsilon"] = nullptr; },
                                               [](Json& json) { json.erase("delta"); },
                                               [](Json& json) { json["no_guarantee"] = "a seed"; },
                                               [](Json& json) { json["guarantee"] = false; },
                                               [](Json& json) { json["scope"] = "data ledger"; },
                                               [](Json& json) { json["scope"] = "all"; },
                                               [](Json& json) { json["unit"] = "user"; },
                                               [](Json& json) { json["unit"]["kind"] = "planet"; }})
    EXPECT_NE(refusal(change).find("is not a privacy statement"), std::string::npos);
  fs::remove(place("out/privacy.json"));
  EXPECT_NE(test::fault<UsageError>([&] { checked(); }).find("has no privacy.json"), std::string::npos);
  EXPECT_NE(test::fault<UsageError>([&] { check_release(place("none")); }).find("there is no folder"),
            std::string::npos);
  EXPECT_NE(test::fault<UsageError>([&] { check_release(place("out/PRIVACY.md")); }).find("is not a folder"),
            std::string::npos);
}

TEST_F(ReleaseCheck, ComparesTheJsonWithThePage) {
  train("run", {{"dp.privacy_unit", "user"}, {"dp.max_records_per_user", "2"}, {"data.user_field", "from"}});
  auto json = released();
  const auto promise = checked().statement.promise;
  EXPECT_TRUE(is_stated_in(promise, io::content(place("out/PRIVACY.md"))));
  const auto said = lines_of(checked());
  ASSERT_EQ(said.size(), 1u);
  EXPECT_TRUE(said[0].ends_with(text(": epsilon ", json["epsilon"].dump(), " at delta 1e-05 per user"))) << said[0];
  json["epsilon"] = 0.1;
  fs::remove(place("out/privacy.json"));
  scratch.write("out/privacy.json", json.dump());
  const auto refusal = test::fault<Error>([&] { checked(); });
  EXPECT_NE(refusal.find("states epsilon 0.1 at delta 1e-05 per user, and the first paragraph of PRIVACY.md another"),
            std::string::npos)
      << refusal;
}

TEST(ReadStatement, ComparesFiguresAndNotTheirDigits) {
  const auto page = [](const std::string& first) {
    return "# Privacy statement\n\n" + first + "\n\nThe run alone has epsilon 1 at delta 1e-05.\n";
  };
  const StatedPromise own{.epsilon = 3, .delta = 1e-5, .unit = "user", .runs = {}};
  for (const auto* same : {"trained: **epsilon 3 at delta 1e-05**.", "epsilon 3.0000 at delta 0.00001"})
    EXPECT_TRUE(is_stated_in(own, page(same))) << same;
  for (const auto* other : {"epsilon 2.9 at delta 1e-05", "epsilon 3 at delta 1e-06", "epsilon three at delta 1e-05",
                            "epsilon 3 at delta 1e-05, or epsilon 1 at delta 1e-05", "a poem",
                            "**There is NO privacy guarantee**, epsilon 3 at delta 1e-05"})
    EXPECT_FALSE(is_stated_in(own, page(other))) << other;
  EXPECT_TRUE(is_stated_in({}, page("**There is NO privacy guarantee for this model: a seed.**")));
  EXPECT_FALSE(is_stated_in({}, page("epsilon 3 at delta 1e-05")));
  EXPECT_FALSE(is_stated_in(own, "# Privacy statement"));
  const StatedPromise cap{.epsilon = 1.2346, .delta = 1e-5, .unit = "record", .runs = 2};
  EXPECT_TRUE(is_stated_in(cap, page("epsilon 1.23456 at delta 1e-05"))) << "rounded up in the JSON";
  EXPECT_EQ(describe(cap), "epsilon 1.2346 at delta 1e-05 per record, of 2 runs together");
  EXPECT_EQ(describe(own), "epsilon 3 at delta 1e-05 per user");
  EXPECT_EQ(describe({}), "NO privacy guarantee");
}

// Root may read everything.
struct AsAnother {
  AsAnother() : was_root(::geteuid() == 0 && ::seteuid(65534) == 0) {}
  ~AsAnother() {
    if (was_root && ::seteuid(0) != 0) std::abort();
  }
  bool was_root;
};

TEST_F(ReleaseCheck, NamesWhatCannotBeReadAndGoesOn) {
  train("base", {{"dp.dp", "none"}, {"dp.sigma", "0"}, {"train.export_folder", place("base_model")}});
  train("run",
        {{"model.model", place("base_model")}, {"model.weights", place("base_model")}, {"model.lora_rank", "4"}});
  released({.part = ReleasedPart::both});
  const auto all = checked().matching;
  const auto set = [&](const std::string& name, unsigned mode) { fs::permissions(place(name), fs::perms(mode)); };
  fs::permissions(scratch.path(), fs::perms(0755));
  set("out", 0755);
  set("out/adapter", 0);
  set("out/config.json", 0);
  fs::remove(place("out/tokenizer.json"));
  scratch.write("out/NOTES.md", "");
  const auto seen = [&] {
    const AsAnother user;
    return checked();
  }();
  using Names = std::vector<std::string>;
  ASSERT_GE(seen.unreadable.size(), 3u);
  EXPECT_EQ(seen.unreadable.front(), "adapter");
  EXPECT_TRUE(seen.unreadable[1].starts_with("adapter/")) << seen.unreadable[1];
  EXPECT_EQ(seen.unreadable.back(), "config.json");
  EXPECT_EQ(seen.missing, Names{"tokenizer.json"});
  EXPECT_EQ(seen.extra, Names{"NOTES.md"});
  EXPECT_TRUE(seen.different.empty());
  EXPECT_EQ(seen.matching + seen.unreadable.size() - 1 + 1, all) << "but the folder, and the missing one";
  EXPECT_FALSE(seen.passed());
  const auto refusal = [&] {  // not a wrong argument
    const AsAnother user;
    try {
      checked();
    } catch (const UsageError& fault) {
      return text("a wrong argument: ", fault.what());
    } catch (const Error& fault) {
      return std::string(fault.what());
    }
    return std::string();
  };
  set("out/privacy.json", 0);
  EXPECT_EQ(refusal().find("cannot open"), 0u) << refusal();
  set("out/privacy.json", 0644);
  set("out", 0711);
  EXPECT_EQ(refusal().find("cannot read the folder"), 0u) << refusal();
  set("out", 0);
  EXPECT_EQ(refusal().find("cannot look at"), 0u) << refusal();
  set("out", 0755);
  set("out/adapter", 0755);
}

TEST(CheckedReleases, AreSummedUpInALine) {
  CheckedRelease checked;
  checked.statement = {.day = "2026-01-31", .promise = StatedPromise{3, 1e-5, "user", 2}, .files = {}};
  checked.matching = 6;
  const auto said = [&] { return join(lines_of(checked), "\n"); };
  EXPECT_EQ(said(), "6 files match the statement of 2026-01-31: epsilon 3 at delta 1e-05 per user, of 2 runs together");
  checked.extra = {".gitattributes", "README\x1b.md"};
  EXPECT_EQ(said(),
            ".gitattributes is not covered by the statement\nREADME\\x1b.md is not covered by the statement\n"
            "6 files match the statement of 2026-01-31; 2 more are not covered by the statement");
  checked.unreadable = {"b"};
  checked.extra = {"a"};
  EXPECT_EQ(said(),
            "b cannot be read\na is not covered by the statement\n"
            "6 files match the statement of 2026-01-31; 1 cannot be read; 1 more is not covered by the statement");
  checked.extra.clear();
  checked.different = {"c"};
  EXPECT_EQ(said(),
            "c differs from the statement\nb cannot be read\n1 file does not match the statement of 2026-01-31, "
            "which does not hold for this folder (6 match, 1 cannot be read)");
}

}  // namespace
}  // namespace shade::train
