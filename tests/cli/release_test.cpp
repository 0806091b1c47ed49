// shade release as a user meets it, and the statement that ends a private shade train.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "shade/base/json.h"
#include "shade/base/strings.h"
#include "tests/io/scratch.h"
#include "tests/support/json_schema.h"
#include "tests/support/process.h"

namespace shade::cli {
namespace {

namespace fs = std::filesystem;

bool says(const test::Outcome& seen, const std::string& words) { return seen.output.find(words) != std::string::npos; }

struct ReleaseVerb : testing::Test {
  std::string place(const std::string& name) const { return (scratch.path() / name).string(); }
  test::Outcome shade(const std::vector<std::string>& words) const {
    return test::run_shade(words, {.limit = Seconds(120)});
  }
  test::Outcome train(const std::vector<std::string>& more) const {
    std::string lines;
    for (int i = 0; i < 40; ++i) lines += Json{{"text", text("sea and wave ", i)}}.dump() + "\n";
    fs::create_directories(place("texts"));
    scratch.write("texts/a.jsonl", lines);
    std::vector<std::string> words{"train",          "--model",
                                   "llama-nano",     "--from-scratch",
                                   "--vocab-size",   "260",
                                   "--tokenizer",    "bytes",
                                   "--data-folder",  place("texts"),
                                   "--cache-folder", place("cache"),
                                   "--seq-length",   "24",
                                   "--batch-size",   "8",
                                   "--steps",        "2",
                                   "--micro-batch",  "8",
                                   "--task",         "lm",
                                   "--output",       place("run"),
                                   "--threads",      "1"};
    words.insert(words.end(), more.begin(), more.end());
    return shade(words);
  }

  io::Scratch scratch;
};

// The lines of the statement are the last ones of a run, and the first ones of its release.
TEST_F(ReleaseVerb, PrintsTheStatementThatEndedTheRun) {
  const auto trained = train({"--dp", "auto", "--sigma", "1.5"});
  ASSERT_EQ(trained.status, 0) << trained.output;
  const auto begin = trained.output.rfind("\nprivacy  epsilon ");
  ASSERT_NE(begin, std::string::npos) << trained.output;
  const auto statement = trained.output.substr(begin + 1);
  for (const auto* part : {" at delta 1e-05 by prv; neighbouring data sets: add or remove one record\n",
                           "2 steps: poisson sampling at rate 0.2, sigma 1.5, clip norm 1.0 (flat)\n", "ledger ",
                           "PRIVACY.md (shade release) states what is taken as public and what is not covered\n"})
    EXPECT_NE(statement.find(part), std::string::npos) << part << "\n" << statement;
  for (const auto& line : split(statement, '\n')) EXPECT_LT(line.size(), 120u) << "short: " << line;
  EXPECT_LT(trained.output.find("the noise key was deleted"), begin) << "nothing comes after the statement";

  const auto released = shade({"release", place("run"), place("out"), "--json", place("said.json")});
  ASSERT_EQ(released.status, 0) << released.output;
  EXPECT_EQ(released.output.find(statement), 0u) << statement << "\n---\n" << released.output;
  const auto said = read_json(place("said.json"));
  EXPECT_EQ(said["statement"], read_json(place("out/privacy.json")));
  EXPECT_EQ(said["files"].size(), static_cast<size_t>(std::distance(fs::directory_iterator(place("out")), {})));
  EXPECT_TRUE(said["statement"]["versions"]["trained_with"].contains("shade"));
  EXPECT_EQ(said["statement"]["versions"]["trained_with"], said["statement"]["versions"]["released_with"]);
  const auto shade_version = said["statement"]["versions"]["trained_with"]["shade"].get<std::string>();
  EXPECT_NE(io::content(place("out/PRIVACY.md")).find("| trained with (last start) | shade " + shade_version),
            std::string::npos);
  const test::JsonSchema schema(read_json(fs::path(test::source_root()) / "docs/schema/privacy.schema.json"));
  EXPECT_EQ(join(schema.faults(said["statement"]), "\n"), "");
  EXPECT_TRUE(said["statement"]["training"].contains("last_started_on")) << said;
  EXPECT_EQ(said["statement"]["data"]["name"], "texts");
  EXPECT_EQ(said["statement"]["data"]["counts"], (Json{{{"of", "records"}, {"number", 40}}}));
  for (const auto& file : fs::directory_iterator(place("out")))
    EXPECT_EQ(io::content(file.path()).find(scratch.path().string()), std::string::npos) << file.path();
}

TEST_F(ReleaseVerb, RefusesWhatHasNoEpsilon) {
  const auto seeded = train({"--dp", "auto", "--sigma", "1.5", "--noise-seed", "3"});
  ASSERT_EQ(seeded.status, 0) << seeded.output;
  EXPECT_TRUE(says(seeded, "\nprivacy  no guarantee: the noise has a seed, not a secret key\n")) << seeded.output;
  const auto refused = shade({"release", place("run"), place("out")});
  EXPECT_EQ(refused.status, 2) << refused.output;
  EXPECT_TRUE(says(refused, "no epsilon can be stated")) << refused.output;
  EXPECT_FALSE(fs::exists(place("out")));
  const auto released = shade({"release", place("run"), place("out"), "--without-privacy"});
  EXPECT_EQ(released.status, 0) << released.output;
  EXPECT_TRUE(says(released, "no guarantee: the noise has a seed")) << released.output;
  EXPECT_EQ(read_json(place("out/privacy.json"))["guarantee"], false);
  const auto again = shade({"release", place("run"), place("out"), "--without-privacy"});
  EXPECT_EQ(again.status, 2) << again.output;
  EXPECT_TRUE(says(again, "is not empty")) << again.output;
  EXPECT_TRUE(says(shade({"release", place("texts"), place("more")}), "is not a run of shade train"));
  EXPECT_TRUE(says(shade({"release", place("run"), place("more"), "--ranks", "2"}), "one process"));
}

// The commands that a recipient has: ours, and those of every system.
TEST_F(ReleaseVerb, ChecksThatTheFilesAreThoseOfTheStatement) {
  ASSERT_EQ(train({"--dp", "auto", "--sigma", "1.5", "--sample-rate", "0.2"}).status, 0);
  const auto released = shade({"release", place("run"), place("out")});
  ASSERT_EQ(released.status, 0) << released.output;
  const auto statement = read_json(place("out/privacy.json"));
  EXPECT_EQ(statement.dump().find("\"number\""), std::string::npos) << "the number of records is private here";
  const auto check = [&](const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{"release", "--check", place("out")};
    words.insert(words.end(), more.begin(), more.end());
    return shade(words);
  };
  const auto good = check({"--json", place("checked.json")});
  EXPECT_EQ(good.status, 0) << good.output;
  EXPECT_TRUE(says(good, text("7 files match the statement of ", statement["released_on"].get<std::string>(),
                              ": epsilon ", statement["epsilon"].dump(), " at delta 1e-05 per record\n")))
      << good.output;
  const auto told = read_json(place("checked.json"));
  EXPECT_EQ(told["passed"], true);
  EXPECT_TRUE(says(released, "privacy.json has SHA-256 " + told["statement_sha256"].get<std::string>()))
      << released.output;
  const auto summed = [&] {
    return std::system(
        ("cd '" + place("out") + "' && grep -E '^[0-9a-f]{64}  ' PRIVACY.md | sha256sum -c --status").c_str());
  };
  EXPECT_EQ(summed(), 0) << "coreutils agree";
  const auto whole = io::content(place("out/model.safetensors")), page = io::content(place("out/PRIVACY.md"));
  auto flipped = whole;
  flipped[flipped.size() - 9] ^= 1;
  const auto write = [&](const std::string& name, const std::string& content) {
    fs::remove(place(name));
    scratch.write(name, content);
  };
  write("out/model.safetensors", flipped);
  EXPECT_NE(summed(), 0);
  write("out/PRIVACY.md", page + "\nepsilon is 0.1\n");
  fs::remove(place("out/tokenizer.json"));
  scratch.write("out/notes\xff.txt", "mine");
  const auto bad = check({"--json", place("checked.json")});
  EXPECT_EQ(bad.status, 1) << bad.output;
  for (const auto* line : {"model.safetensors differs from the statement\n", "PRIVACY.md differs from the statement\n",
                           "tokenizer.json is missing\n", "notes\\xff.txt is not covered by the statement\n",
                           "3 files do not match the statement of 20"})
    EXPECT_TRUE(says(bad, line)) << line << bad.output;
  EXPECT_FALSE(says(bad, "config.json")) << bad.output;
  EXPECT_EQ(read_json(place("checked.json"))["passed"], false);
  EXPECT_EQ(read_json(place("checked.json"))["unreadable"], Json::array());
  write("out/privacy.json", "{}");
  const auto none = check();
  EXPECT_EQ(none.status, 1) << none.output;
  EXPECT_TRUE(says(none, "is not a privacy statement of shade release: its format is another one")) << none.output;
}

// A run that was never private says nothing about privacy at its end.
TEST_F(ReleaseVerb, RefusesARunThatIsNotPrivate) {
  const auto plain = train({});
  ASSERT_EQ(plain.status, 0) << plain.output;
  EXPECT_FALSE(says(plain, "no guarantee")) << plain.output;
  const auto refused = shade({"release", place("run"), place("out")});
  EXPECT_EQ(refused.status, 2) << refused.output;
  EXPECT_TRUE(says(refused, "the run is not private")) << refused.output;
}

// Of a model folder that holds a link to a file elsewhere, in the place of any file that is read: no key of the user's
// gets into an export or a release, nothing is written, and the message says what to do.
TEST_F(ReleaseVerb, TakesFilesOfTheModelFolderAlone) {
  ASSERT_EQ(train({"--export", place("base"), "--output", place("base_run")}).status, 0);
  scratch.write("base/chat_template.jinja", "{{ x }}");
  scratch.write("base/chat_template.json", "{}");
  scratch.write("base/special_tokens_map.json", "{}");
  const auto fine_tune = [&](const std::string& run) {
    return shade({"train",
                  "--model",
                  place("base"),
                  "--data-folder",
                  place("texts"),
                  "--cache-folder",
                  place("cache"),
                  "--seq-length",
                  "24",
                  "--batch-size",
                  "8",
                  "--steps",
                  "2",
                  "--task",
                  "lm",
                  "--dp",
                  "auto",
                  "--sigma",
                  "1.5",
                  "--threads",
                  "1",
                  "--output",
                  place(run),
                  "--export",
                  place(run + "_export")});
  };
  const auto trained = fine_tune("run");
  ASSERT_EQ(trained.status, 0) << trained.output;
  EXPECT_TRUE(says(trained, "exported from " + place("base/chat_template.jinja"))) << trained.output;
  for (const char* name :
       {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "generation_config.json",
        "special_tokens_map.json", "chat_template.jinja", "chat_template.json"}) {
    const auto file = fs::path(place("base")) / name, key = fs::path(place("key"));
    fs::rename(file, key);
    fs::create_symlink("../key", file);
    const auto message =
        text("cannot read ", file, ": it leads to ", fs::canonical(key), ", outside the model's folder ",
             fs::canonical(place("base")), "; replace the link by a copy of the file");
    const auto exported = fine_tune("other");
    EXPECT_EQ(exported.status, 1) << name << exported.output;
    EXPECT_TRUE(says(exported, message)) << message << "\n" << exported.output;
    EXPECT_FALSE(fs::exists(place("other_export"))) << name;
    EXPECT_FALSE(fs::exists(place("other/metrics.jsonl"))) << name << ": refused before the first step";
    fs::remove_all(place("other"));
    const auto released = shade({"release", place("run"), place("out")});
    if (std::string_view(name) != "model.safetensors") {  // the release has its own
      EXPECT_EQ(released.status, 1) << name << released.output;
      EXPECT_TRUE(says(released, message)) << message << "\n" << released.output;
      EXPECT_FALSE(fs::exists(place("out"))) << name;
    }
    fs::remove_all(place("out"));
    fs::rename(key, file);
  }
  const auto released = shade({"release", place("run"), place("out"), "--json", place("said.json")});
  ASSERT_EQ(released.status, 0) << released.output;
  EXPECT_TRUE(says(released, "made from " + place("base/chat_template.jinja") + "\n")) << released.output;
  const auto from = read_json(place("said.json"))["made_from"];
  EXPECT_EQ(from.size(), 6u) << from;
  EXPECT_NE(std::find(from.begin(), from.end(), Json(".../chat_template.jinja")), from.end()) << from;
}

TEST_F(ReleaseVerb, HasHelpWithAnExample) {
  const auto help = shade({"release", "--help"});
  EXPECT_EQ(help.status, 0);
  for (const auto* part :
       {"RUN", "FOLDER", "--without-privacy", "--part", "shade release runs/", "--check", "not a signature"})
    EXPECT_TRUE(says(help, part)) << part << "\n" << help.output;
  EXPECT_TRUE(says(shade({"--help"}), "release")) << "listed among the verbs";
}

}  // namespace
}  // namespace shade::cli
