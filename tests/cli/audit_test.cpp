// shade audit as a user meets it: every kind, and a finished model with canaries that were split by coins.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "shade/base/json.h"
#include "tests/io/scratch.h"
#include "tests/support/process.h"

namespace shade::cli {
namespace {

struct AuditVerb : testing::Test {
  std::string place(const std::string& name) const { return (scratch.path() / name).string(); }
  test::Outcome shade(std::vector<std::string> words) const {
    words.insert(words.begin(), test::shade_binary());
    return test::run(words, {.limit = Seconds(120)});
  }
  static bool says(const test::Outcome& seen, const std::string& words) {
    return seen.output.find(words) != std::string::npos;
  }
  int64_t lines(const std::string& name) const {
    const auto all = io::content(place(name));
    return std::count(all.begin(), all.end(), '\n');
  }

  io::Scratch scratch;
};

TEST_F(AuditVerb, StatesConfidenceAndAssumptionsOfEveryKind) {
  for (const std::string kind : {"step", "training", "one_run", "model"}) {
    std::vector<std::string> arguments{"audit",         "--kind",          kind,  "--model",
                                       "linear-nano",   "--batch-size",    "2",   "--json",
                                       place("a.json"), "--max-grad-norm", "0.01"};
    const std::vector<std::string> few =
        kind == "step"
            ? std::vector<std::string>{"--runs", "100"}
            : std::vector<std::string>{kind == "training" ? "--trainings" : "--canaries", "20", "--steps", "2"};
    arguments.insert(arguments.end(), few.begin(), few.end());
    const auto seen = shade(arguments);
    EXPECT_EQ(seen.status, 1) << "so few trials show nothing\n" << seen.output;
    for (const auto* words : {"assumed:", "claimed", "at least", "confidence 0.999", "nothing is shown"})
      EXPECT_TRUE(says(seen, words)) << words << "\n" << seen.output;
    const auto json = read_json(place("a.json"));
    EXPECT_EQ(json["kind"], kind);
    EXPECT_EQ(json["verdict"], "nothing shown");
    EXPECT_EQ(json["pass"], false);
    EXPECT_GT(json["claimed_epsilon"], json["lower_epsilon"]) << json;
    EXPECT_GE(json["assumes"].size(), 3u);
    EXPECT_EQ(json["confidence"], 0.999);
    EXPECT_EQ(json["delta"], 1e-5);
    EXPECT_EQ(json["config"]["audit"]["kind"], kind);
  }
}

TEST_F(AuditVerb, FindsAFault) {
  const auto seen = shade({"audit", "--kind", "training", "--model", "linear-nano", "--batch-size", "2", "--trainings",
                           "20", "--steps", "2", "--max-grad-norm", "0.01", "--fault", "no_clip"});
  EXPECT_EQ(seen.status, 1);
  EXPECT_TRUE(says(seen, "the claim is WRONG")) << seen.output;
  const auto step = shade({"audit", "--fault", "reused_noise"});
  EXPECT_EQ(step.status, 2);
  EXPECT_TRUE(says(step, "add --kind training")) << step.output;
}

TEST_F(AuditVerb, OfAFinishedModelFindsWhatItHasLearntByHeart) {
  std::string canaries;
  for (int i = 0; i < 120; ++i)  // each with words of its own
    canaries += Json{{"text", text("canary ", (i * 7919 + 13) % 100003, ' ', (i * 104729 + 7) % 99991)}}.dump() + "\n";
  const auto file = scratch.write("canaries.jsonl", canaries).string();
  const std::vector<std::string> split{"audit", "--split-canaries", file, "--output-dir", place("split")};
  const auto drawn = shade(split);
  ASSERT_EQ(drawn.status, 0) << drawn.output;
  const auto included = lines("split/included/canaries.jsonl");
  EXPECT_EQ(included + lines("split/excluded/canaries.jsonl"), 120);
  EXPECT_GT(included, 20);
  EXPECT_LT(included, 100);
  struct stat facts{};
  ASSERT_EQ(::stat(place("split/included/canaries.jsonl").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  const auto again = shade(split);
  EXPECT_EQ(again.status, 2) << "a second draw could be chosen by its result";
  EXPECT_TRUE(says(again, "exists; choose another --output-dir")) << again.output;
  std::filesystem::rename(place("split/excluded"), place("excluded"));
  EXPECT_EQ(shade(split).status, 2);
  EXPECT_FALSE(std::filesystem::exists(place("split/excluded"))) << "half of another draw";
  std::filesystem::rename(place("excluded"), place("split/excluded"));

  const auto trained = shade({"train",         "--model", "llama-nano",    "--from-scratch",
                              "--task",        "lm",      "--vocab-size",  "260",
                              "--tokenizer",   "bytes",   "--data-folder", place("split/included"),
                              "--seq-length",  "24",      "--batch-size",  "20",
                              "--steps",       "150",     "--lr",          "1e-2",
                              "--micro-batch", "20",      "--output",      place("run"),
                              "--threads",     "1"});
  ASSERT_EQ(trained.status, 0) << trained.output;
  const std::vector<std::string> audit{"audit",
                                       "--kind",
                                       "model",
                                       "--trained",
                                       place("run"),
                                       "--included",
                                       place("split/included"),
                                       "--excluded",
                                       place("split/excluded")};
  const auto without_claim = shade(audit);
  EXPECT_EQ(without_claim.status, 2);
  EXPECT_TRUE(says(without_claim, "needs --trained, --included, --excluded and --claimed-epsilon"));
  auto words = audit;
  words.insert(words.end(), {"--claimed-epsilon", "0.05", "--audit.confidence", "0.95", "--json", place("found.json")});
  const auto seen = shade(words);
  EXPECT_EQ(seen.status, 1) << seen.output;
  EXPECT_TRUE(says(seen, "the claim is WRONG")) << seen.output;
  const auto json = read_json(place("found.json"));
  EXPECT_EQ(json["canaries"], 120);
  EXPECT_EQ(json["included"], included);
  ASSERT_EQ(::stat(place("found.json").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  std::filesystem::create_directory(place("results"));
  std::filesystem::rename(place("found.json"), place("results/found.json"));
  const auto report = shade({"report", place("results")});
  ASSERT_EQ(report.status, 0) << report.output;
  ASSERT_EQ(::stat(place("results/visualizations").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0700u) << "the report repeats a closed file";
  words.insert(words.end(), {"--reference", place("run")});
  const auto unchanged = shade(words);
  EXPECT_NE(unchanged.status, 2) << unchanged.output;
  EXPECT_EQ(read_json(place("found.json"))["lower_epsilon"], 0) << "every loss is that of the reference";
}

TEST_F(AuditVerb, OfAFinishedModelNeedsARecordForEachCanary) {
  std::string canaries;
  for (int i = 0; i < 40; ++i) canaries += Json{{"text", text("canary ", i)}, {"owner", text(i / 2)}}.dump() + "\n";
  std::filesystem::create_directory(place("in"));
  scratch.write("in/canaries.jsonl", canaries);
  const auto status_and_text = [&](const std::vector<std::string>& data, const std::string& run) {
    std::vector<std::string> words{"train",        "--model", "llama-nano",    "--from-scratch", "--task",    "lm",
                                   "--vocab-size", "260",     "--tokenizer",   "bytes",          "--steps",   "1",
                                   "--seq-length", "24",      "--data-folder", place("in"),      "--threads", "1",
                                   "--batch-size", "4",       "--output",      place(run)};
    words.insert(words.end(), data.begin(), data.end());
    const auto trained = shade(words);
    EXPECT_EQ(trained.status, 0) << trained.output;
    return shade({"audit", "--kind", "model", "--trained", place(run), "--included", place("in"), "--excluded",
                  place("in"), "--claimed-epsilon", "3"});
  };
  const auto packed = status_and_text({"--packing", "packed"}, "packed");
  EXPECT_EQ(packed.status, 2);
  EXPECT_TRUE(says(packed, "was trained on packed texts")) << packed.output;
  const auto users = status_and_text({"--user-field", "owner"}, "users");
  EXPECT_EQ(users.status, 2);
  EXPECT_TRUE(says(users, "two canaries have the same user")) << users.output;
}

TEST_F(AuditVerb, TakesTheUnitOfARecipe) {
  const auto recipe = scratch.write("users.toml", "[dp]\nprivacy_unit = \"user\"\nmax_records_per_user = 3\n").string();
  const auto seen = shade({"audit", "--config", recipe, "--model", "linear-nano", "--batch-size", "2", "--runs", "100",
                           "--json", place("users.json")});
  EXPECT_NE(seen.status, 2) << seen.output;
  EXPECT_EQ(read_json(place("users.json"))["privacy_unit"], "user");
}

}  // namespace
}  // namespace shade::cli
