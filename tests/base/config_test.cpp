#include "shade/base/config.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "shade/base/error.h"
#include "shade/base/json.h"
#include "tests/support/fault.h"

namespace shade {
namespace {

enum class Mode { fast, exact };
std::span<const Name<Mode>> names_of(Mode) {
  static constexpr Name<Mode> kNames[] = {{"fast", Mode::fast}, {"exact", Mode::exact}, {"EXACT", Mode::exact}};
  return kNames;
}

struct Section {
  int64_t batch = 2;
  double rate = 1e-5;
  bool offload = false;
  std::string name = "run";
  Bytes limit = MiB(64);
  Seconds timeout{10};
  Mode mode = Mode::fast;
  std::vector<int64_t> lengths{1024, 2048};
  std::vector<std::string> names;

  void declare(Fields& f) {
    f.add("batch", batch, {.help = "samples per rank", .unit = "samples", .min = 1, .flags = {"--batch-size"}});
    f.add("rate", rate, {.help = "learning rate", .min = 0, .max = 1});
    f.add("offload", offload, {.help = "keep shards in a file"});
    f.add("name", name, {.help = "of the run"});
    f.add("limit", limit, {.help = "in flight"});
    f.add("timeout", timeout, {.help = "of a peer", .min = 1});
    f.add("mode", mode, {.help = "how"});
    f.add("lengths", lengths, {.help = "sequence lengths", .min = 1});
    f.add("names", names, {.help = "of classes"});
  }
};

using test::fault;

struct ConfigTest : testing::Test {
  ConfigTest() { config.add("work", section); }
  Section section;
  Config config;
};

TEST_F(ConfigTest, OneDeclarationIsReadFromToml) {
  config.read_toml_text(R"([work]
batch = 8
rate = 0.5
offload = true
name = "night, shift"
limit = "1GiB"
timeout = 2.5
mode = "exact"
lengths = [1, 2, 3]
)",
                        "r.toml");
  EXPECT_EQ(section.batch, 8);
  EXPECT_EQ(section.rate, 0.5);
  EXPECT_TRUE(section.offload);
  EXPECT_EQ(section.name, "night, shift");
  EXPECT_EQ(section.limit, GiB(1));
  EXPECT_EQ(section.timeout, Seconds(2.5));
  EXPECT_EQ(section.mode, Mode::exact);
  EXPECT_EQ(section.lengths, (std::vector<int64_t>{1, 2, 3}));
}

TEST_F(ConfigTest, OverriddenByWords) {
  config.set("work.batch", "4");
  config.set("work.mode", "EXACT");
  config.set("work.lengths", "7, 8");
  EXPECT_EQ(section.batch, 4);
  EXPECT_EQ(section.mode, Mode::exact);
  EXPECT_EQ(section.lengths, (std::vector<int64_t>{7, 8}));
}

TEST_F(ConfigTest, PrintedWithDefaultUnitAndChoices) {
  EXPECT_EQ(config.fields()[0].help(), "samples per rank (at least 1) [2 samples]");
  EXPECT_EQ(config.fields()[1].help(), "learning rate (0.0 to 1.0) [1e-05]");
  EXPECT_EQ(config.fields()[5].help(), "of a peer (at least 1.0s) [10.0s]") << "a bound has the field's unit";
  EXPECT_EQ(config.fields()[8].help(), "of classes [not set]");
  EXPECT_EQ(config.fields()[4].help(), "in flight [64MiB]");
  EXPECT_EQ(config.fields()[6].help(), "how: fast|exact|EXACT [fast]");
  config.set("work.batch", "9");
  EXPECT_EQ(config.fields()[0].help(), "samples per rank (at least 1) [2 samples]")
      << "the default, not the present value";
}

// What people write who don't know TOML.
TEST_F(ConfigTest, LinesThatAreNotTomlSayWhatIsMissing) {
  const auto said = [&](const std::string& line) {
    return fault([&] { config.read_toml_text("[work]\n" + line + "\n", "r.toml"); });
  };
  EXPECT_EQ(
      said("batch = three"),
      "r.toml:2: 'three' is not a value of TOML; expected a number, true, false, a list, or text in quotes: batch "
      "= \"three\"");
  EXPECT_EQ(said("name = /data/run"),
            "r.toml:2: '/data/run' is not a value of TOML; expected a number, true, false, a list, or text in quotes: "
            "name = \"/data/run\"");
  EXPECT_EQ(said("batch ="), "r.toml:2: 'batch' has no value; expected batch = VALUE");
  EXPECT_EQ(said("batch: 3"),
            "r.toml:2: 'batch: 3' is neither a [section] nor a key with a value; expected KEY = VALUE");
  EXPECT_EQ(said("lengths = [1,\n  two]").find("KEY = VALUE"), std::string::npos) << "the parser's own words";
}

enum class Fruit { apple, pear, stone };
std::span<const Name<Fruit>> names_of(Fruit) {
  static constexpr Name<Fruit> kNames[] = {{"apple", Fruit::apple}, {"pear", Fruit::pear}, {"stone", Fruit::stone}};
  return kNames;
}

TEST(Config, NamesForProgramsAreNotOffered) {
  struct Bowl {
    Fruit fruit = Fruit::stone;
    void declare(Fields& f) { f.add("fruit", fruit, {.help = "what is eaten", .not_offered = {"stone"}}); }
  } bowl;
  Config config;
  config.add("bowl", bowl);
  EXPECT_EQ(config.fields()[0].help(), "what is eaten: apple|pear [stone]");
  EXPECT_EQ(fault([&] { config.set("bowl.fruit", "stone"); }),
            "bowl.fruit: 'stone' is unknown; expected one of apple, pear");
  config.set("bowl.fruit", "pear");
  EXPECT_EQ(bowl.fruit, Fruit::pear);
}

TEST_F(ConfigTest, WrittenTypedIntoResults) {
  config.set("work.limit", "2KiB");
  const auto json = json_values(config);
  EXPECT_EQ(json["work"]["batch"], 2);
  EXPECT_EQ(json["work"]["limit"], 2048);
  EXPECT_EQ(json["work"]["mode"], "fast");
  EXPECT_EQ(json["work"]["lengths"], Json::array({1024, 2048}));
}

TEST_F(ConfigTest, UnknownKeysSuggestTheNearest) {
  EXPECT_EQ(fault([&] { config.set("work.batsh", "1"); }), "unknown key 'work.batsh'; did you mean 'work.batch'?");
  EXPECT_EQ(fault([&] { config.read_toml_text("[work]\nofload = true\n", "r.toml"); }),
            "r.toml:2: unknown key 'work.ofload'; did you mean 'work.offload'?");
  EXPECT_EQ(fault([&] { config.read_toml_text("[play]\nx = 1\n", "r.toml"); }), "r.toml:2: unknown key 'play.x'");
  EXPECT_EQ(fault([&] { config.read_toml_text("\n[play]\nbatch = 1\n", "r.toml"); }),
            "r.toml:3: unknown key 'play.batch'; did you mean 'work.batch'?");
}

TEST_F(ConfigTest, ValuesAreValidated) {
  EXPECT_EQ(fault([&] { config.set("work.batch", "0"); }),
            "work.batch: '0' is out of range; expected at least 1.0 samples");
  EXPECT_EQ(fault([&] { config.set("work.rate", "2"); }), "work.rate: '2' is out of range; expected at most 1.0");
  EXPECT_EQ(fault([&] { config.set("work.batch", "two"); }), "work.batch: 'two' is not a whole number");
  EXPECT_EQ(fault([&] { config.set("work.mode", "exakt"); }),
            "work.mode: 'exakt' is unknown; expected one of fast, exact, EXACT; did you mean 'exact'?");
  EXPECT_EQ(fault([&] { config.read_toml_text("[work]\n\nbatch = true\n", "r.toml"); }),
            "r.toml:3: work.batch: 'true' is not a whole number");
  EXPECT_EQ(section.batch, 2) << "a refused value changes nothing";
}

TEST_F(ConfigTest, BrokenTomlNamesThePlace) {
  EXPECT_TRUE(fault([&] { config.read_toml_text("[work]\nbatch = \n", "r.toml"); }).starts_with("r.toml:2:"));
  EXPECT_EQ(fault([&] { config.read_toml("/nowhere/r.toml"); }),
            "cannot read the configuration \"/nowhere/r.toml\"; expected a TOML file");
}

TEST_F(ConfigTest, KnowsWhatWasGiven) {
  EXPECT_FALSE(config.given("work.batch"));
  config.set("work.batch", "2");
  EXPECT_TRUE(config.given("work.batch")) << "if only as its default";
  config.read_toml_text("[work]\nrate = 0.5\n", "r.toml");
  EXPECT_TRUE(config.given("work.rate"));
  EXPECT_THROW(config.set("work.limit", "much"), UsageError);
  EXPECT_FALSE(config.given("work.limit")) << "a refused value is not given";
  EXPECT_EQ(fault([&] { config.given("work.batsh"); }), "unknown key 'work.batsh'; did you mean 'work.batch'?");
}

TEST_F(ConfigTest, ElementsOfATomlListMayHaveCommas) {
  config.read_toml_text("[work]\nnames = [\"Paris, Texas\", \"Rome\"]\n", "r.toml");
  EXPECT_EQ(section.names, (std::vector<std::string>{"Paris, Texas", "Rome"}));
  config.set("work.names", "a, b");
  EXPECT_EQ(section.names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(fault([&] { config.read_toml_text("[work]\nbatch = [1, 2]\n", "r.toml"); }),
            "r.toml:2: work.batch: '1,2' is not a whole number");
}

TEST_F(ConfigTest, KeysOfOthersAreSetThere) {
  struct Other {
    int64_t steps = 1, batch = 2;
    void declare(Fields& f) {
      f.add("steps", steps, {.help = "updates"});
      f.add("batch", batch, {.help = "samples"});
    }
  } other;
  Config others;
  others.add("train", other);
  config.read_also(others);
  config.read_toml_text("[work]\nbatch = 7\n[train]\nsteps = 5\n", "test.toml");
  EXPECT_EQ(section.batch, 7);
  EXPECT_EQ(other.steps, 5);
  EXPECT_TRUE(others.given("train.steps"));
  EXPECT_FALSE(others.given("train.batch"));
  EXPECT_FALSE(config.has("train.steps"));
  EXPECT_EQ(fault([&] { config.read_toml_text("[train]\nstep = 5\n", "test.toml"); }).find("test.toml:2: unknown key"),
            0u)
      << "a typo is still one";
}

// Whatever the order of sections.
TEST_F(ConfigTest, OwnKeysHoldBeforeThoseOfOthers) {
  struct Other {
    int64_t& batch;
    void declare(Fields& f) { f.add("batch", batch, {.help = "samples"}); }
  } other{section.batch};
  for (const auto* name : {"a", "zoo"}) {
    Config mine, others;
    mine.add("work", section);
    others.add(name, other);
    mine.read_also(others);
    mine.read_toml_text(text("[", name, "]\nbatch = 5\n[work]\nbatch = 7\n"), "test.toml");
    EXPECT_EQ(section.batch, 7) << name;
    mine.read_toml_text(text("[", name, "]\nbatch = 6\n"), "test.toml");
    EXPECT_EQ(section.batch, 6) << name;
  }
}

TEST_F(ConfigTest, AliasesOfAnOptionAreKeysOfItsSection) {
  config.read_toml_text("[work]\nbatch_size = 7\n", "r.toml");
  EXPECT_EQ(section.batch, 7);
  EXPECT_TRUE(config.given("work.batch"));
  EXPECT_EQ(fault([&] { config.read_toml_text("[play]\nbatch_size = 7\n", "r.toml"); }),
            "r.toml:2: unknown key 'play.batch_size'; did you mean 'work.batch'?");
  EXPECT_EQ(fault([&] { config.read_toml_text("[work]\nbatch = 1\nbatch_size = 2\n", "r.toml"); }),
            "r.toml:3: 'work.batch' and 'work.batch_size' are two names of one field; drop one of them");
}

TEST_F(ConfigTest, KnowsTheWordOfAValue) {
  EXPECT_EQ(config.word("work.mode"), "");
  config.set("work.mode", "EXACT");
  EXPECT_EQ(config.word("work.mode"), "EXACT") << "not \"exact\", which is the same value";
}

TEST_F(ConfigTest, AFileThatSetsNothingIsRefused) {
  EXPECT_NE(fault([&] { config.read_toml_text("# steps = 3\n", "r.toml"); }).find("r.toml sets nothing"),
            std::string::npos);
  EXPECT_NE(fault([&] { config.read_toml("/tmp"); }).find("is a folder; expected a TOML file"), std::string::npos);
}

TEST_F(ConfigTest, WhatIsPrintedReadsBack) {
  EXPECT_TRUE(rc::check([&](uint16_t batch, uint32_t bytes, double rate) {
    section.batch = 1 + batch;
    section.limit = {bytes};
    section.rate = 1 / (1 + std::abs(rate));
    const Section before = section;
    for (auto& field : config.fields()) field.set(field.str());
    RC_ASSERT(section.batch == before.batch && section.limit == before.limit && section.rate == before.rate);
  }));
}

}  // namespace
}  // namespace shade
