// The facts of a statement beside its epsilon, and which of them are withheld.
#include <gtest/gtest.h>

#include <regex>

#include <fstream>

#include "shade/base/strings.h"
#include "shade/base/utc.h"
#include "shade/checkpoint/chain.h"
#include "shade/hash/digest.h"
#include "shade/io/errors.h"
#include "shade/train/release/check_release.h"
#include "shade/train/release/release.h"
#include "tests/io/scratch.h"
#include "tests/support/json_schema.h"
#include "tests/support/process.h"
#include "tests/train/visits.h"

namespace shade::train {
namespace {

namespace fs = std::filesystem;

struct StatedFacts : VisitsTest {
  // The statement of a new release, and its page.
  Json released(const std::string& run, const ReleaseOptions& options = {}) {
    fs::remove_all(place("out"));
    release(find_run(place(run)).value(), place("out"), options);
    page = io::content(place("out/PRIVACY.md"));
    EXPECT_EQ(page.find(scratch.path().string()), std::string::npos) << page;
    auto out = read_json(place("out/privacy.json"));
    const test::JsonSchema schema(read_json(fs::path(test::source_root()) / "docs/schema/privacy.schema.json"));
    EXPECT_EQ(join(schema.faults(out), "\n"), "");
    return out;
  }
  void expect_on_page(const std::vector<std::string>& parts) const {
    for (const auto& part : parts) EXPECT_NE(page.find(part), std::string::npos) << part << "\n" << page;
  }
  CheckedRelease checked() const { return check_release(place("out")); }

  std::string page;
};

const Words kUsers{{"dp.privacy_unit", "user"}, {"dp.max_records_per_user", "2"}, {"data.user_field", "from"}};

TEST_F(StatedFacts, AreOnThePageAndInTheJson) {
  train("run", kUsers);
  const auto json = released("run", {.program = {.shade = "9.9"}});
  const auto day = json["released_on"].get<std::string>();
  EXPECT_EQ(day, utc_text(std::time(nullptr)).substr(0, 10));
  EXPECT_EQ(json["data"]["name"], "visits");
  EXPECT_EQ(json["data"]["counts"][0], (Json{{"of", "users"}, {"number", 20}}));
  EXPECT_EQ(json["data"]["counts"][1]["of"], "records");
  EXPECT_FALSE(json["data"]["counts"][1].contains("number")) << "the number of records is private";
  EXPECT_EQ(json["base_model"], (Json{{"random", true}}));
  EXPECT_EQ(json["training"]["checkpoint_step"], 2);
  EXPECT_EQ(json["training"]["settings"]["optimizer"], "adamw");
  EXPECT_EQ(json["training"]["settings"]["batch_size"], 8);
  EXPECT_EQ(json["noise"]["key"], "not in the run directory");
  EXPECT_FALSE(json["training"].contains("last_started_on")) << "no environment.json was written";
  expect_on_page({"| released on (UTC) | " + day,
                  "| training last started on (UTC) | not stated: ",
                  "| data set | visits |",
                  "| users in training | 20 |",
                  "| records in training | not stated: it is private; the unit of privacy is a user",
                  "random weights",
                  "shade 9.9",
                  "| optimizer | adamw |",
                  "| learning rate | 0.0001 |",
                  "| schedule | constant |",
                  "| expected batch size | 8 |",
                  "| dtype | fp32 |",
                  "In each step every user joins the batch",
                  "clipped: scaled so that its norm is at most C",
                  "sigma x C is added",
                  "the Gaussian mechanism",
                  "DP-SGD (Abadi et al. 2016) with AdamW",
                  "prv: numerical composition of the privacy loss distributions",
                  "ChaCha20",
                  "the key was not in the run directory",
                  "with and without this user in the data differs by at most a factor of e^",
                  "So the odds change at most e^",
                  "selecting settings, runs or checkpoints after seeing results"});
  fs::create_directories(place("run"));
  scratch.write("run/environment.json", R"({"date": "2026-01-31T12:00:00Z", "host": "secret.host", "shade": "1.0"})");
  EXPECT_EQ(released("run")["training"]["last_started_on"], "2026-01-31");
  EXPECT_EQ(page.find("secret.host"), std::string::npos);
}

// Where the sampling rate doesn't follow from it, the number of records or users is as private as they are.
TEST_F(StatedFacts, WithholdNumbersThatAreNotPublic) {
  train("rate", {{"dp.sample_rate", "0.25"}});
  auto json = released("rate");
  EXPECT_EQ(json["data"]["counts"].size(), 1u);
  EXPECT_FALSE(json["data"]["counts"][0].contains("number"));
  expect_on_page({"| records in training | not stated: it is private; the sampling rate was given"});
  const auto words = std::regex_replace(page, std::regex("[0-9a-f]{32,}"), "");  // digests
  EXPECT_FALSE(std::regex_search(words, std::regex("\\b40\\b"))) << words;
  EXPECT_EQ(json["taken_as_public"].dump().find("the number of"), std::string::npos);
  train("users", [] {
    auto out = kUsers;
    out.emplace_back("dp.sample_rate", "0.25");
    return out;
  }());
  for (const auto& count : released("users")["data"]["counts"]) EXPECT_FALSE(count.contains("number")) << count;
  train("followed");
  EXPECT_EQ(released("followed")["data"]["counts"][0]["number"], 40);
  // The first start's rate followed from the number, and is in the statement.
  train("both");
  train("both", {{"dp.sample_rate", "0.25"}, {"train.steps", "4"}});
  json = released("both");
  EXPECT_FALSE(json["data"]["counts"][0].contains("number"));
  EXPECT_NE(json["taken_as_public"].dump().find("the number of records in training"), std::string::npos);
  train("plain", {{"dp.dp", "none"}, {"dp.sigma", "0"}});
  EXPECT_FALSE(released("plain", {.without_privacy = true})["data"]["counts"][0].contains("number"));
  expect_on_page({"NO privacy guarantee", "| data set | visits |", "| optimizer | adamw |", "## Files"});
}

TEST_F(StatedFacts, NameTheBaseModelByItsDigest) {
  train("base", {{"dp.dp", "none"}, {"dp.sigma", "0"}, {"train.export_folder", place("base_model")}});
  train("run",
        {{"model.model", place("base_model")}, {"model.weights", place("base_model")}, {"model.lora_rank", "4"}});
  const auto json = released("run", {.part = ReleasedPart::both});
  const auto digest = hash::sha256_of(*io::MappedFile::open(place("base_model/model.safetensors")));
  EXPECT_EQ(json["base_model"]["name"], "base_model");
  EXPECT_EQ(json["base_model"]["files"], (Json{{{"name", "model.safetensors"}, {"sha256", digest}}}));
  expect_on_page({"| base model | base_model; model.safetensors has SHA-256 " + digest, "| lora rank | 4 |",
                  "the data that the base model was trained on"});
  EXPECT_TRUE(checked().passed());
  EXPECT_NE(page.find("  adapter/adapter_model.safetensors\n"), std::string::npos) << "files of the adapter too";
}

// Steps of all starts are in the ledger, so what any of them used is stated.
TEST_F(StatedFacts, AreThoseOfAllStarts) {
  train("base", {{"dp.dp", "none"}, {"dp.sigma", "0"}, {"train.export_folder", place("base_model")}});
  fs::create_directories(place("other"));
  fs::copy_file(place("visits/a.jsonl"), place("other/a.jsonl"));
  const Words from_base{{"model.model", place("base_model")}, {"dp.sample_rate", "0.25"}};
  const auto with = [&](Words more) {
    more.insert(more.begin(), from_base.begin(), from_base.end());
    return more;
  };
  train("run", with({{"model.weights", place("base_model")},
                     {"dp.sampler", "truncated_poisson"},
                     {"dp.max_batch", "20"},
                     {"train.eval_rate", "0.1"},
                     {"train.keep_key", "true"}}));
  fs::rename(place("run/key"), place("key"));
  train("run", with({{"model.from_scratch", "true"}, {"data.data_folder", place("other")}, {"train.steps", "4"}}));
  const auto json = released("run");
  ASSERT_EQ(json["mechanisms"].size(), 2u);
  EXPECT_GT(json["mechanisms"][0]["population"].get<int64_t>(), 1);
  EXPECT_EQ(json["base_model"]["name"], "base_model");
  EXPECT_EQ(json["later_base_models"], (Json{{{"random", true}}}));
  EXPECT_EQ(json["noise"]["key"], "kept, not in the run directory");
  EXPECT_FALSE(json["data"]["counts"][0].contains("number"));
  expect_on_page({"| data set | visits, other |", "| base model of a later start | none",
                  "- the number of records in training, from which the sampling follows",
                  "- the weights that training started from", "- a bound on the number of records",
                  "- the data that the base model was trained on",
                  "held out for evaluation, as configured at each start",
                  "- the share of records that is held out for evaluation, a setting: 0.1\n",
                  "**not against anyone who has the key of the noise**"});
  fs::rename(place("run/recipe.1.toml"), place("run/recipe.2.toml"));
  released("run");
  expect_on_page({"| data set | visits, other |", "- the data that the base model was trained on"});
  fs::remove(place("run/recipe.2.toml"));
  scratch.write("run/recipe.1.toml", "not a recipe");
  released("run");
  expect_on_page({"if the sampling rate of an earlier start follows from it"});
  expect_on_page({"if the share that an earlier start held out follows from it"});
}

// Noise of versions that had no theorem stays named as such; a run that they began continues as a new incarnation.
TEST_F(StatedFacts, NameNoiseThatWasApproximate) {
  const std::string theorem =
      "The finite precision of the noise and of the sampling takes nothing from epsilon and delta";
  const std::string before = "- steps of an earlier version of shade: the difference between their noise";
  train("run");
  auto json = released("run");
  expect_on_page({theorem, "- an observer who can break ChaCha20 or BLAKE2b"});
  EXPECT_EQ(page.find(before), std::string::npos) << page;
  EXPECT_EQ(json["mechanisms"][0]["noise"], "ideal, rounded once");
  // The same ledger, as version 3 would have written it.
  const auto chain = checkpoint::read_chain(io::content(place("run/ledger")));
  std::string ledger;
  hash::Digest head{};
  for (auto record : chain.records) {
    const std::string_view now = R"("mechanism_version":4)";
    if (const auto at = record.find(now); at != std::string::npos) record.replace(at + now.size() - 1, 1, "3");
    ledger += checkpoint::next_line(head, record);
  }
  scratch.write("run/ledger", ledger);
  json = released("run");
  expect_on_page({before, "Some steps were made by an earlier version of shade"});
  EXPECT_EQ(page.find(theorem), std::string::npos) << page;
  EXPECT_EQ(json["mechanisms"][0]["noise"], "approximate");
  train("run", {{"train.steps", "4"}});
  json = released("run");
  expect_on_page({before, theorem, "Some steps were made by an earlier version of shade"});
  EXPECT_EQ(json["mechanisms"].size(), 2);
}

// Private runs up to 0.2 held out a number of records, at a rate that followed from how many there are. What they made
// stays usable; more steps of the kind are not made.
TEST_F(StatedFacts, NameAShareThatFollowedFromANumber) {
  train("run");
  auto recipe = io::content(place("run/recipe.toml"));
  const auto replace = [&](const std::string& begin, const std::string& by) {
    const auto at = recipe.find("\n" + begin) + 1;
    recipe.replace(at, recipe.find('\n', at) + 1 - at, by);
  };
  replace("eval_rate = ", "");
  replace("eval_records = ", "eval_records = 6\n");
  scratch.write("run/recipe.toml", recipe);
  released("run");
  expect_on_page({"- the rounded share of records that is held out, which follows from the number of all records\n",
                  "- records that were held out for evaluation\n"});
  EXPECT_EQ(page.find("a setting:"), std::string::npos) << page;
  const auto ledger = io::content(place("run/ledger"));
  for (const auto& held_out : {Words{{"train.eval_records", "6"}}, Words{{"train.eval_rate", "0.1"}}, Words{}}) {
    const auto said = refused(place("run"), words(with(held_out, {{"train.steps", "9"}})));
    for (const std::string part : {"was begun with --eval-records 6, so the share that it holds out follows from the "
                                   "number of records; such a run is not continued",
                                   "with --eval-rate"})
      EXPECT_NE(said.find(part), std::string::npos) << said;
  }
  EXPECT_EQ(io::content(place("run/ledger")), ledger);
  EXPECT_EQ(io::content(place("run/recipe.toml")), recipe);
}

TEST_F(StatedFacts, OfAdaptiveClippingNameItsCount) {
  train("run", {{"dp.clip_style", "adaptive"}, {"dp.count_sigma", "12"}});
  EXPECT_EQ(released("run")["training"]["settings"]["count_sigma"], 12);
  expect_on_page({"larger than sigma x C", "| count sigma | 12.0 |"});
}

// Names come from files of others.
TEST_F(StatedFacts, AreShownAsTheyAreWritten) {
  const std::string name = "v*isits*|\x1b[31m\n## <b>";
  fs::rename(place("visits"), place(name));
  train("run", {{"data.data_folder", place(name)}});
  released("run");
  expect_on_page({"| data set | v\\*isits\\*\\|\\x1b\\[31m\\x0a## \\<b> |"});
}

TEST_F(StatedFacts, SayIfTheKeyIsStillThere) {
  train("run", {{"train.keep_key", "true"}});
  EXPECT_EQ(released("run")["noise"]["key"], "in the run directory");
  expect_on_page({"**not against anyone who has the key of the noise**"});
  expect_on_page({"the key was still in the run directory", "the key of the noise, which was not deleted"});
  fs::rename(place("run/key"), place("elsewhere"));
  EXPECT_EQ(released("run")["noise"]["key"], "kept, not in the run directory");
  expect_on_page({"asked to keep the key", "the key of the noise, which was not deleted"});
}

TEST(LastName, IsNoPath) {
  EXPECT_EQ(last_name("/data/visits"), "visits");
  EXPECT_EQ(last_name("/data/visits/"), "visits");
  EXPECT_EQ(last_name("a/../visits/."), "visits");
  EXPECT_EQ(last_name("visits.csv"), "visits.csv");
  for (const auto* none : {"", ".", "..", "../..", "/"}) EXPECT_EQ(last_name(none), "") << none;
}

}  // namespace
}  // namespace shade::train
