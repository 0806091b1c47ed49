// What a release holds, what it states, and what is refused.
#include "shade/train/release/release.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "shade/base/strings.h"
#include "shade/hash/digest.h"
#include "shade/io/errors.h"
#include "shade/io/weight_folder.h"
#include "shade/train/budget/budget.h"
#include "shade/train/budget/data_ledger.h"
#include "tests/io/scratch.h"
#include "tests/support/json_schema.h"
#include "tests/support/process.h"
#include "tests/train/training.h"

namespace shade::train {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSteps = 3;

const std::vector<std::string> kModelFiles{
    "PRIVACY.md",        "README.md",    "config.json",    "generation_config.json",
    "model.safetensors", "privacy.json", "tokenizer.json", "tokenizer_config.json"};

test::JsonSchema schema() {
  return test::JsonSchema(read_json(fs::path(test::source_root()) / "docs/schema/privacy.schema.json"));
}

std::vector<std::string> files_of(const fs::path& folder) {
  std::set<std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (!entry.is_directory()) out.insert(entry.path().lexically_relative(folder).string());
  return {out.begin(), out.end()};
}

struct Release : testing::Test {
  Release() {
    std::string lines;
    for (int i = 0; i < 60; ++i)
      lines += Json{{"text", text(i % 2 == 0 ? "sea " : "hill ", i)},
                    {"label", i % 2 == 0 ? "wet" : "dry"},
                    {"from", text("user ", i % 20)}}
                   .dump() +
               "\n";
    fs::create_directories(place("texts"));
    scratch.write("texts/a.jsonl", lines);
  }
  std::string place(const std::string& name) const { return (scratch.path() / name).string(); }

  Trained train(const std::string& run, const Words& more = {}) const {
    Words words{{"model.model", "llama-nano"},
                {"model.vocab_size", "260"},
                {"model.task", "lm"},
                {"data.tokenizer", "bytes"},
                {"data.data_folder", place("texts")},
                {"data.cache_folder", place("cache")},
                {"train.steps", std::to_string(kSteps)},
                {"train.batch_size", "8"},
                {"train.micro_batch", "8"},
                {"train.seq_length", "16"},
                {"train.eval_rate", "0.1"},
                {"dp.dp", "auto"},
                {"dp.sigma", "1.5"}};
    words.insert(words.end(), more.begin(), more.end());
    return train_in(place(run), 1, words);
  }
  Released release_of(const std::string& run, const ReleaseOptions& options = {}) const {
    return release(find_run(place(run)).value(), place("out"), options);
  }
  // Why it is refused; nothing is left behind then.
  template <class Fault = UsageError>
  std::string refusal(const std::string& run, const ReleaseOptions& options = {}) const {
    const auto before = names();
    const auto said = test::fault<Fault>([&] { release_of(run, options); });
    EXPECT_EQ(names(), before) << said;
    return said;
  }
  std::set<std::string> names() const {
    std::set<std::string> out;
    for (const auto& entry : fs::directory_iterator(scratch.path())) out.insert(entry.path().filename().string());
    return out;
  }
  Json statement() const { return read_json(place("out/privacy.json")); }
  void expect_valid() const { EXPECT_EQ(join(schema().faults(statement()), "\n"), ""); }
  void expect_no_place() const {
    for (const auto& file : files_of(place("out"))) {
      const auto content = io::content(place("out/" + file));
      EXPECT_EQ(content.find(scratch.path().string()), std::string::npos) << file;
      EXPECT_EQ(content.find(scratch.path().filename().string()), std::string::npos) << file;
    }
  }

  io::Scratch scratch;
};

TEST_F(Release, HoldsTheModelAndTheStatementAlone) {
  const auto trained = train("run");
  const auto released = release_of("run", {.program = {.shade = "9.9", .commit = "abc", .libtorch = "2"}});
  EXPECT_EQ(released.files, kModelFiles);
  EXPECT_EQ(files_of(place("out")), kModelFiles);
  EXPECT_EQ(names(), (std::set<std::string>{"cache", "out", "run", "texts"})) << "no temporary folder stays";
  expect_valid();
  expect_no_place();
  const io::WeightFolder weights(place("out"));
  int64_t elements = 0;
  for (const auto& weight : trained.weights) elements += weight.numel();
  int64_t written = 0;
  for (const auto& name : weights.names()) written += weights.read(name, at::kFloat).numel();
  EXPECT_EQ(written, elements);
}

TEST_F(Release, StatesWhatTheLedgerSpent) {
  const auto trained = train("run", {{"dp.delta", "1e-4"}});
  const auto released = release_of("run");
  ASSERT_TRUE(trained.result.spent);
  EXPECT_EQ(released.statement.spent->epsilon, trained.result.spent->epsilon) << "the trainer and the release agree";
  const auto json = statement();
  EXPECT_GE(json["epsilon"].get<double>(), trained.result.spent->epsilon) << "rounded up";
  EXPECT_EQ(json["epsilon"].get<double>(), std::stod(rounded_up(trained.result.spent->epsilon)));
  EXPECT_EQ(json["delta"], 1e-4);
  EXPECT_EQ(json["scope"], "run");
  EXPECT_EQ(json["run"], (Json{{"epsilon", json["epsilon"]}, {"delta", 1e-4}, {"accountant", "prv"}}));
  EXPECT_EQ(json["adjacency"], "add or remove one record");
  EXPECT_EQ(json["unit"], (Json{{"kind", "record"}}));
  EXPECT_EQ(json["steps"], kSteps);
  ASSERT_EQ(json["mechanisms"].size(), 1u);
  const auto& kind = json["mechanisms"][0];
  EXPECT_EQ(kind["sampler"], "poisson");
  EXPECT_EQ(kind["sigma"], 1.5);
  EXPECT_EQ(kind["clip_norm"], 1.0);
  EXPECT_EQ(kind["divisor"], 8.0);
  EXPECT_GT(kind["sample_rate"].get<double>(), 8.0 / 61);
  EXPECT_EQ(json["ledger"]["digest"], hash::to_hex(hash::digest_of(io::content(place("run/ledger")))));
  EXPECT_FALSE(json.contains("data_ledger"));
  const auto words = io::content(place("out/PRIVACY.md"));
  for (const auto& part :
       {text("**epsilon ", rounded_up(trained.result.spent->epsilon), " at delta 0.0001**"),
        std::string("(Poisson sampling)"), std::string("records that were held out for evaluation\n"),
        std::string("a setting: 0.1\n"), std::string("| share held out for evaluation | 0.1 |\n"),
        std::string("the number of records")})
    EXPECT_NE(words.find(part), std::string::npos) << part << "\n" << words;
  const auto card = io::content(place("out/README.md"));
  for (const auto& part :
       {std::string(
            "---\nlibrary_name: transformers\npipeline_tag: text-generation\ntags:\n- shade\n- differential-privacy\n"),
        text("**epsilon ", rounded_up(trained.result.spent->epsilon), " at delta 0.0001**"),
        std::string("| mechanism | DP-SGD, 3 steps: poisson sampling at rate"), std::string("](PRIVACY.md)"),
        std::string("pipeline(\"text-generation\", \"FOLDER\")")})
    EXPECT_NE(card.find(part), std::string::npos) << part << "\n" << card;
  const auto lines = join(short_lines(released.statement), "\n");
  EXPECT_NE(lines.find(text("epsilon ", rounded_up(trained.result.spent->epsilon), " at delta 0.0001")),
            std::string::npos)
      << lines;
}

// Steps that the model has forgotten stay spent.
TEST_F(Release, CountsStepsOfAllHistories) {
  train("run");
  fs::remove_all(place("run/checkpoints"));
  const auto again = train("run", {{"dp.sigma", "2"}, {"train.restart", "true"}});
  const auto released = release_of("run");
  EXPECT_EQ(released.statement.spent->epsilon, again.result.spent->epsilon);
  EXPECT_EQ(statement()["steps"], 2 * kSteps);
  EXPECT_EQ(statement()["mechanisms"].size(), 2u);
  expect_valid();
}

TEST_F(Release, NamesUsersByFieldAndMost) {
  train("run", {{"dp.privacy_unit", "user"}, {"dp.max_records_per_user", "2"}, {"data.user_field", "from"}});
  release_of("run");
  EXPECT_EQ(statement()["unit"], (Json{{"kind", "user"}, {"field", "from"}}));
  EXPECT_EQ(statement()["mechanisms"][0]["max_records_per_user"], 2);
  EXPECT_EQ(statement()["adjacency"], "add or remove one user with all records");
  expect_valid();
}

// Settings may change when a run goes on: each kind of steps is stated with its own.
TEST_F(Release, StatesClipStyleAndRecordsPerUserOfEveryStart) {
  const Words users{{"dp.privacy_unit", "user"}, {"data.user_field", "from"}};
  const auto with = [&](Words words) {
    words.insert(words.end(), users.begin(), users.end());
    return words;
  };
  train("run", with({{"dp.max_records_per_user", "2"}, {"train.steps", "2"}}));
  train("run", with({{"dp.max_records_per_user", "3"}, {"train.steps", "3"}}));
  train("run", with({{"dp.max_records_per_user", "3"}, {"train.steps", "6"}, {"dp.clip_style", "automatic"}}));
  const auto released = release_of("run");
  expect_valid();
  std::vector<Json> found;
  const auto stated = statement();
  for (const auto& kind : stated["mechanisms"])
    found.push_back({kind["steps"], kind["clip_style"], kind["max_records_per_user"]});
  EXPECT_EQ(found, (std::vector<Json>{{2, "flat", 2}, {1, "flat", 3}, {3, "automatic", 3}}));
  EXPECT_EQ(stated["steps"], 6);
  const auto words = join(short_lines(released.statement), "\n");
  for (const auto* part :
       {"(flat), at most 2 records of a user in a step", "(flat), at most 3 records", "(automatic), at most 3 records"})
    EXPECT_NE(words.find(part), std::string::npos) << part << "\n" << words;
  const auto page = io::content(place("out/PRIVACY.md"));
  for (const auto* row :
       {"| flat: one norm over all weights | 8.0 | 2 |", "| flat: one norm over all weights | 8.0 | 3 |",
        "| automatic: divided by its norm and scaled to at most C | 8.0 | 3 |"})
    EXPECT_NE(page.find(row), std::string::npos) << row << "\n" << page;
}

TEST_F(Release, NamesClassesAndTruncatedBatches) {
  train("run", {{"model.task", "classify"},
                {"data.classes", "dry,wet"},
                {"dp.sampler", "truncated_poisson"},
                {"dp.max_batch", "20"}});
  const auto released = release_of("run");
  EXPECT_EQ(read_json(place("out/config.json"))["id2label"], (Json{{"0", "dry"}, {"1", "wet"}}));
  EXPECT_EQ(statement()["mechanisms"][0]["max_batch"], 20);
  EXPECT_NE(statement()["taken_as_public"].dump().find("the names of the classes"), std::string::npos);
  EXPECT_EQ(released.files.size(), kModelFiles.size() - 1) << "a classifier doesn't generate";
  expect_valid();
}

TEST_F(Release, RefusesRunsWithoutAnEpsilon) {
  const std::tuple<const char*, Words, const char*> runs[] = {
      {"plain", {{"dp.dp", "none"}, {"dp.sigma", "0"}}, "not private"},
      {"seeded", {{"dp.noise_seed", "7"}}, "the noise has a seed"},
      {"silent", {{"dp.sigma", "0"}}, "no noise is added"},
      {"shuffled", {{"dp.sampler", "shuffled"}}, "batches are shuffled"}};
  for (const auto& [name, words, why] : runs) {
    train(name, words);
    const auto said = refusal(name);
    EXPECT_NE(said.find(why), std::string::npos) << said;
    EXPECT_NE(said.find("--without-privacy"), std::string::npos) << said;
    release_of(name, {.without_privacy = true});
    EXPECT_EQ(files_of(place("out")), kModelFiles);
    EXPECT_EQ(statement()["guarantee"], false) << name;
    EXPECT_NE(statement()["no_guarantee"].get<std::string>().find(why), std::string::npos) << name;
    EXPECT_FALSE(statement().contains("epsilon")) << name;
    for (const auto* page : {"out/PRIVACY.md", "out/README.md"})
      EXPECT_NE(io::content(place(page)).find("NO privacy guarantee"), std::string::npos) << name;
    EXPECT_EQ(io::content(place("out/README.md")).find("differential-privacy"), std::string::npos) << name;
    expect_valid();
    fs::remove_all(place("out"));
  }
}

TEST_F(Release, RefusesALedgerThatIsNotOfTheCheckpoint) {
  train("run");
  train("other");
  EXPECT_NE(refusal("run", {.without_privacy = true}).find("drop it"), std::string::npos) << "it has an epsilon";
  fs::copy_file(place("other/ledger"), place("run/ledger"), fs::copy_options::overwrite_existing);
  EXPECT_NE(refusal("run").find("the ledger does not know the steps"), std::string::npos);
  fs::remove(place("run/ledger"));
  EXPECT_NE(refusal("run").find("no ledger"), std::string::npos);
  EXPECT_FALSE(fs::exists(place("run/ledger")));
  scratch.write("run/ledger", "{\"format\":\"shade ledger\",\"version\":2} 00\n");
  EXPECT_NE(refusal<io::FormatError>("run").find("is damaged"), std::string::npos);
}

TEST_F(Release, TakesAnEmptyFolderAndNoOther) {
  train("run");
  fs::create_directories(place("out"));
  scratch.write("out/notes", "mine");
  EXPECT_NE(refusal("run").find("is not empty"), std::string::npos);
  EXPECT_EQ(files_of(place("out")), (std::vector<std::string>{"notes"}));
  fs::remove(place("out/notes"));
  release_of("run");
  EXPECT_EQ(files_of(place("out")), kModelFiles);
  fs::remove_all(place("out"));
  scratch.write("out", "a file");
  EXPECT_NE(refusal("run").find("is not a folder"), std::string::npos);
  fs::remove(place("out"));
  fs::create_directories(place("elsewhere"));
  fs::create_directory_symlink(place("elsewhere"), place("out"));
  EXPECT_NE(refusal("run").find("symbolic link"), std::string::npos);
}

// A damaged weight is met when others are written already.
TEST_F(Release, LeavesNothingIfItFails) {
  train("run");
  const auto at = find_run(place("run"))->checkpoint;
  const auto file = at / "rank_00000.safetensors";
  auto bytes = io::content(file);
  bytes[bytes.size() - 5] ^= 1;
  std::ofstream(file, std::ios::binary) << bytes;
  EXPECT_NE(refusal<io::FormatError>("run"), "no error");
  EXPECT_FALSE(fs::exists(place("out")));
}

TEST_F(Release, HasAdaptersAsTheRunExportsThem) {
  train("base", {{"dp.dp", "none"}, {"dp.sigma", "0"}, {"train.export_folder", place("base_model")}});
  const Words lora{{"model.model", place("base_model")},
                   {"model.weights", place("base_model")},
                   {"model.lora_rank", "4"},
                   {"train.adapter_folder", place("exported")}};
  train("run", lora);
  release_of("run");
  const std::vector<std::string> adapter{
      "PRIVACY.md",   "README.md",      "adapter_config.json",  "adapter_model.safetensors",
      "privacy.json", "tokenizer.json", "tokenizer_config.json"};
  EXPECT_EQ(files_of(place("out")), adapter);
  EXPECT_EQ(io::content(place("out/adapter_model.safetensors")),
            io::content(place("exported/adapter_model.safetensors")));
  EXPECT_TRUE(read_json(place("out/adapter_config.json"))["base_model_name_or_path"].is_null());
  const auto card = io::content(place("out/README.md"));
  EXPECT_NE(card.find("library_name: peft"), std::string::npos) << card;
  EXPECT_NE(card.find("PeftModel.from_pretrained(AutoModelForCausalLM"), std::string::npos) << card;
  expect_no_place();
  expect_valid();
  fs::remove_all(place("out"));

  release_of("run", {.part = ReleasedPart::both});
  auto both = kModelFiles;
  for (const auto& name : adapter)
    if (name != "PRIVACY.md" && name != "README.md" && name != "privacy.json") both.push_back("adapter/" + name);
  std::sort(both.begin(), both.end());
  EXPECT_EQ(files_of(place("out")), both);
  expect_no_place();
  EXPECT_NE(test::fault<UsageError>([&] {
              release(find_run(place("base")).value(), place("plain"), {.part = ReleasedPart::adapter});
            }).find("no LoRA adapters"),
            std::string::npos);
}

// transformers notes where a tokenizer was loaded from; such notes are dropped, and any other mention stops the
// release.
TEST_F(Release, CarriesNoPathOfThisMachine) {
  const auto golden = fs::path(test::source_root()) / "tests/golden/tokenizer_llama3";
  fs::copy(golden, place("tokens"));
  fs::permissions(place("tokens"), fs::perms::owner_all, fs::perm_options::add);
  const auto settings = place("tokens/tokenizer_config.json");
  auto config = fs::exists(settings) ? read_json(settings) : Json::object();
  config["name_or_path"] = place("tokens");
  config["init"] = {{"vocab_file", place("tokens/vocab")}};
  const auto set = [&] {
    fs::remove(settings);
    scratch.write("tokens/tokenizer_config.json", config.dump());
  };
  set();
  const Words words{{"data.tokenizer", place("tokens")}, {"model.vocab_size", "1500"}};
  train("run", words);
  release_of("run");
  EXPECT_FALSE(read_json(place("out/tokenizer_config.json")).contains("name_or_path"));
  expect_no_place();
  fs::remove_all(place("out"));
  config["comment"] = "made in " + place("tokens");
  set();
  EXPECT_NE(refusal<Error>("run").find("a folder of this machine"), std::string::npos);
}

TEST_F(Release, SchemaFindsWhatIsWrong) {
  train("run");
  release_of("run");
  const auto good = statement();
  const auto faults = [&](const std::function<void(Json&)>& change) {
    auto json = good;
    change(json);
    return schema().faults(json).size();
  };
  EXPECT_EQ(faults([](Json&) {}), 0u);
  for (const auto* key :
       {"format",      "version",   "released_on", "guarantee", "epsilon",    "delta",  "scope",
        "run",         "adjacency", "unit",        "steps",     "mechanisms", "noise",  "taken_as_public",
        "not_covered", "data",      "base_model",  "training",  "versions",   "ledger", "files"})
    EXPECT_GT(faults([&](Json& json) { json.erase(key); }), 0u) << key;
  EXPECT_GT(faults([](Json& json) { json["run"] = "runs/mine"; }), 0u);
  EXPECT_GT(faults([](Json& json) { json["version"] = 1; }), 0u);
  EXPECT_GT(faults([](Json& json) { json["data"]["folder"] = "/data/mine"; }), 0u);
  EXPECT_GT(faults([](Json& json) { json["data"]["counts"][0]["not_stated"] = "private"; }), 0u) << "with a number";
  EXPECT_GT(faults([](Json& json) { json["base_model"]["random"] = false; }), 0u) << "without a name";
  EXPECT_GT(faults([](Json& json) { json["training"]["settings"]["loss"] = 1; }), 0u);
  EXPECT_GT(faults([](Json& json) { json["files"][0]["sha256"] = "12"; }), 0u);
  EXPECT_GT(faults([](Json& json) { json["epsilon"] = "1"; }), 0u);
  EXPECT_GT(faults([](Json& json) { json["guarantee"] = false; }), 0u);
  EXPECT_GT(faults([](Json& json) { json["unit"]["kind"] = "user"; }), 0u);
  EXPECT_GT(faults([](Json& json) { json["ledger"]["digest"] = "12"; }), 0u);
  EXPECT_GT(faults([](Json& json) { json["mechanisms"][0]["sampler"] = "shuffled"; }), 0u);
  EXPECT_GT(faults([](Json& json) { json["mechanisms"][0].erase("clip_style"); }), 0u);
  EXPECT_THROW(test::JsonSchema(Json{{"oneOf", Json::array()}}), Error);
}

// A run is known by the marks in its ledger: not by a folder that another run was in before, or that was moved.
TEST_F(Release, CountsTheRunsOfADataLedgerByTheirMarks) {
  const auto books = place("data.ledger");
  DataLedger::create(books, {.epsilon = 50, .delta = 1e-6});
  train("run", {{"dp.data_ledger", books}, {"train.steps", "2"}});
  fs::rename(place("run"), place("moved"));
  train("moved", {{"dp.data_ledger", books}, {"train.steps", "3"}});
  release_of("moved");
  EXPECT_EQ(statement()["scope"], "run") << "one run, in two places";
  EXPECT_EQ(statement()["data_ledger"]["runs"], 1);
  fs::remove_all(place("out"));
  fs::remove_all(place("moved"));
  train("run", {{"dp.data_ledger", books}, {"dp.sigma", "2.5"}});
  release_of("run");
  EXPECT_EQ(statement()["scope"], "data ledger") << "the model of the first run may be known";
  fs::remove_all(place("out"));
  fs::remove_all(place("run"));
  train("run", {{"dp.data_ledger", books}, {"dp.sigma", "3"}});
  release_of("run");
  EXPECT_EQ(statement()["epsilon"], 50);
  EXPECT_GE(statement()["data_ledger"]["runs"], 2) << "the same folder, other runs";
}

TEST_F(Release, StatesWhatAllRunsOnTheDataSpend) {
  const privacy::Cap cap{.epsilon = 50, .delta = 1e-6};
  DataLedger::create(place("data.ledger"), cap);
  train("first", {{"dp.data_ledger", place("data.ledger")}});
  train("run", {{"dp.data_ledger", place("data.ledger")}, {"dp.sigma", "2.5"}});
  release_of("run");
  expect_valid();
  expect_no_place();
  // What one run spent is no defence against a reader of both models: the cap is what is stated first.
  EXPECT_EQ(statement()["scope"], "data ledger");
  EXPECT_EQ(statement()["epsilon"], cap.epsilon);
  EXPECT_EQ(statement()["delta"], cap.delta);
  const auto page = io::content(place("out/PRIVACY.md"));
  EXPECT_LT(page.find("The 2 runs so far that share the data ledger"), page.find("**epsilon 50 at delta 1e-06**"));
  EXPECT_LT(page.find("**epsilon 50 at delta 1e-06**"), page.find("| epsilon and delta of this run alone | epsilon "));
  EXPECT_NE(page.find("a factor of e^50 "), std::string::npos) << page;
  const auto total = statement()["data_ledger"];
  EXPECT_EQ(total["epsilon_cap"], cap.epsilon);
  EXPECT_EQ(total["delta"], cap.delta);
  EXPECT_EQ(total["runs"], 2);
  EXPECT_GT(total["epsilon_if_planned_ahead"].get<double>(), statement()["run"]["epsilon"].get<double>())
      << "the first run too";
  EXPECT_EQ(total["digest"], hash::to_hex(hash::digest_of(io::content(place("data.ledger")))));
  fs::remove_all(place("out"));
  auto recipe = io::content(place("run/recipe.toml"));
  const auto named = recipe.find("data_ledger = ");
  ASSERT_NE(named, std::string::npos);
  recipe.replace(named, recipe.find('\n', named) - named, "data_ledger = \"\"");
  fs::rename(place("run/recipe.toml"), place("recipe"));
  scratch.write("run/recipe.toml", recipe);
  EXPECT_NE(refusal("run").find("names none; restore that file"), std::string::npos) << "the run's ledger knows of it";
  fs::rename(place("recipe"), place("run/recipe.toml"));
  fs::remove(place("data.ledger"));
  EXPECT_NE(refusal("run").find("which does not exist"), std::string::npos) << "what it would have to state is gone";
  DataLedger::create(place("data.ledger"), cap);
  EXPECT_NE(refusal("run").find("is not the one that the run spent from"), std::string::npos);
}

TEST(Statement, HasTheTotalOfADataLedger) {
  PrivacyStatement statement{
      .spent = privacy::Spent{.epsilon = 1.00001, .delta = 1e-5},
      .steps = {{.mechanism = {.sample_rate = 0.5, .noise_multiplier = 1}, .clip_norm = 1, .divisor = 8, .count = 2}},
      .taken_as_public = {"a"},
      .not_covered = {"b"},
      .ledger_digest = std::string(64, 'a'),
      .released_on = "2026-01-31"};
  statement.facts.counts = {{.of = "records", .number = 40}};
  statement.facts.settings = {{"optimizer", "sgd"}, {"learning_rate", 0.1}, {"schedule", "constant"},
                              {"warmup_steps", 0},  {"weight_decay", 0.0},  {"steps", 2},
                              {"batch_size", 8},    {"dtype", "fp32"}};
  EXPECT_EQ(to_json(statement)["epsilon"], 1.0001);
  statement.data_ledger = PrivacyStatement::DataLedger{
      .cap = {8, 1e-6}, .planned = {.epsilon = 2.00001, .delta = 1e-6}, .runs = 3, .digest = std::string(64, 'b')};
  const auto json = to_json(statement);
  EXPECT_EQ(join(schema().faults(json), "\n"), "");
  EXPECT_EQ(json["run"]["epsilon"], 1.0001);
  EXPECT_EQ(json["epsilon"], 8);
  EXPECT_EQ(json["data_ledger"]["epsilon_cap"], 8);
  EXPECT_EQ(json["data_ledger"]["epsilon_if_planned_ahead"], 2.0001);
  EXPECT_NE(markdown(statement).find("planned ahead: epsilon 2.0001 by prv"), std::string::npos) << markdown(statement);
  const auto lines = short_lines(statement);
  EXPECT_NE(lines.at(0).find("privacy  epsilon 8 at delta 1e-06 for the 3 runs so far"), std::string::npos) << lines[0];
  EXPECT_NE(lines.at(1).find("this run alone: epsilon 1.0001 at delta 1e-05 by prv"), std::string::npos) << lines[1];
  // A ledger that this run alone has spent from promises what the run spent.
  statement.data_ledger->runs = 1;
  EXPECT_EQ(to_json(statement)["scope"], "run");
  EXPECT_EQ(to_json(statement)["epsilon"], 1.0001);
  EXPECT_NE(short_lines(statement).at(0).find("privacy  epsilon 1.0001 at"), std::string::npos);
}

}  // namespace
}  // namespace shade::train
