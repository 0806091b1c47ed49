// shade data, as a user meets it.
#include <gtest/gtest.h>

#include "shade/base/json.h"
#include "tests/io/scratch.h"
#include "tests/support/process.h"

namespace shade {
namespace {

test::Outcome data(std::vector<std::string> words) {
  words.insert(words.begin(), {test::shade_binary(), "data"});
  return test::run(words);
}

TEST(DataVerb, WritesACorpusAndLooksAtIt) {
  const io::Scratch scratch;
  const auto corpus = (scratch.path() / "corpus").string(), json = (scratch.path() / "out.json").string();
  const auto made = data({"--write-sample", corpus, "--size", "50kB", "--seq", "64", "--json", json});
  ASSERT_EQ(made.status, 0) << made.output;
  for (const char* part : {"add or remove one record", "garden 40, harbour 40, kitchen", "first without label",
                           "plain/text_00000.txt:1", "read and tokenized"})
    EXPECT_NE(made.output.find(part), std::string::npos) << part << "\n" << made.output;
  const auto first = read_json(json);
  EXPECT_NEAR(first["tokens"].get<double>(), 50000, 1500);
  EXPECT_FALSE(first["from_cache"].get<bool>());
  EXPECT_GT(first["drawn_tokens_per_second"].get<double>(), 1e4);

  const auto again = data({"--data-folder", corpus, "--packing", "packed", "--seq", "64", "--json", json});
  ASSERT_EQ(again.status, 0) << again.output;
  EXPECT_NE(again.output.find("add or remove one window, not a text or a person"), std::string::npos);
  EXPECT_TRUE(read_json(json)["from_cache"].get<bool>());
}

TEST(DataVerb, FaultsAreSaid) {
  const auto none = data({});
  EXPECT_EQ(none.status, 2);
  EXPECT_NE(none.output.find("shade data: no data; set --data-folder"), std::string::npos);
  const io::Scratch scratch;
  scratch.write("a.jsonl", "{\"text\":\"x\"}\n{\"txt\":\"y\"}\n");
  const auto broken = data({"--data-folder", scratch.path().string()});
  EXPECT_EQ(broken.status, 1);
  EXPECT_EQ(broken.output, "shade data: " + (scratch.path() / "a.jsonl").string() +
                               ":2: there is no field 'text' (did you mean 'txt'?); the row has the fields 'txt'\n");
}

TEST(DataVerb, ShowsWhatIsThere) {
  const io::Scratch scratch;
  std::string table = "prompt,completion,label,user_id\n";
  for (int i = 0; i < 40; ++i)
    table += text("ask ", i, ",\"say, ", i, "\",", i % 4 == 0 ? "rare" : "common", ",", i / 4, "\n");
  scratch.write("a.csv", table);
  const auto json = (scratch.path() / "out.json").string();
  const auto seen = data({"--data-folder", (scratch.path() / "a.csv").string(), "--seq", "16", "--json", json});
  ASSERT_EQ(seen.status, 0) << seen.output;
  for (const char* part :
       {"40 records of 'prompt' + 'completion'", "fields that are not used", "common 30, rare 10", "1-16", ">>say, 0<<",
        "field 'user_id' is not used and may say whose record it is (10 different values in the first 40 rows)",
        "--privacy-unit user --user-field user_id"})
    EXPECT_NE(seen.output.find(part), std::string::npos) << part << "\n" << seen.output;
  const auto found = read_json(json);
  EXPECT_EQ(found["cut_records"], 0);
  EXPECT_EQ(found["unused_fields"][0]["name"], "user_id");
  const auto named = data(
      {"--data-folder", (scratch.path() / "a.csv").string(), "--user-field", "user_id", "--label-field", "prompt"});
  EXPECT_NE(named.output.find("label 'prompt', user 'user_id'"), std::string::npos) << named.output;
  EXPECT_NE(named.output.find("4 at the median, 4 at most, of 10 users"), std::string::npos) << named.output;
  EXPECT_EQ(named.output.find("may say whose record"), std::string::npos) << named.output;
}

}  // namespace
}  // namespace shade
