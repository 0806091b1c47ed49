// Methods and strategies as rows: every word means one row, and lists made of the rows hold all of them.
#include <gtest/gtest.h>

#include <set>

#include "shade/catalog/methods.h"
#include "shade/catalog/strategies.h"

namespace shade::catalog {
namespace {

template <class E, class Row, size_t N>
void expect_words(const Row (&rows)[N]) {
  std::set<std::string_view> seen, colours;
  for (const auto& [word, value] : names_of(E{})) {
    EXPECT_FALSE(word.empty());
    EXPECT_TRUE(seen.insert(word).second) << word << " means two rows";
    EXPECT_EQ(parse_name<E>(word), value) << word;
    ASSERT_NE(find_row<Row>(rows, word), nullptr) << word;
    EXPECT_EQ(find_row<Row>(rows, word)->value, value) << word;
  }
  for (const auto& row : rows) {
    EXPECT_EQ(to_string(row.value), row.name);
    EXPECT_TRUE(seen.contains(row.name)) << row.name;
    EXPECT_TRUE(colours.insert(row.colour).second) << row.name << " has the colour of another row";
    EXPECT_EQ(row.colour.size(), 7u) << row.name;
  }
  EXPECT_EQ(find_row<Row>(rows, ""), nullptr) << "an empty alias is no word";
  EXPECT_EQ(find_row<Row>(rows, "nothing"), nullptr);
}

TEST(Rows, EveryWordMeansOneRow) {
  expect_words<MethodName>(kMethods);
  expect_words<Strategy>(kStrategies);
}

TEST(Rows, WordsOfTheDocumentsStay) {
  const std::pair<const char*, MethodName> methods[] = {{"no_dp", MethodName::none},
                                                        {"vanilla", MethodName::none},
                                                        {"auto", MethodName::automatic},
                                                        {"flash_clip", MethodName::flash},
                                                        {"flash_clip_bookkeeping", MethodName::flash_bookkeeping},
                                                        {"ghost_fsdp", MethodName::ghost},
                                                        {"flash_fsdp", MethodName::flash}};
  for (const auto& [word, value] : methods) EXPECT_EQ(parse_name<MethodName>(word), value) << word;
  const std::pair<const char*, Strategy> strategies[] = {
      {"SHARD_GRAD_OP", Strategy::zero2}, {"FULL_SHARD", Strategy::zero3}, {"fsdp", Strategy::zero3}};
  for (const auto& [word, value] : strategies) EXPECT_EQ(parse_name<Strategy>(word), value) << word;
}

TEST(Rows, AModeIsTheWordThatWasGiven) {
  EXPECT_EQ(mode_of("none"), "no_dp");
  for (const auto* word : {"no_dp", "vanilla", "ghost", "ghost_fsdp", "flash", "flash_clip", "auto", "another"})
    EXPECT_EQ(mode_of(word), word);
  const std::pair<const char*, const char*> without[] = {{"none", "no_dp"},
                                                         {"vanilla", "no_dp"},
                                                         {"ghost_fsdp", "ghost"},
                                                         {"flash_clip", "flash"},
                                                         {"flash_clip_bookkeeping", "flash_bookkeeping"},
                                                         {"bookkeeping_fsdp", "bookkeeping"},
                                                         {"another_fsdp", "another"}};
  for (const auto& [word, mode] : without) EXPECT_EQ(method_of(word), mode) << word;
}

TEST(Rows, WhatIsVerified) {
  EXPECT_EQ(private_methods().size() + 1, std::size(kMethods));
  const auto verified = [](Strategy strategy, int ranks) {
    const auto all = strategies_for(ranks);
    return std::find(all.begin(), all.end(), strategy) != all.end();
  };
  for (int ranks = 1; ranks <= 8; ++ranks) {
    EXPECT_EQ(verified(Strategy::none, ranks), ranks == 1) << ranks;
    for (const auto strategy : {Strategy::ddp, Strategy::zero2, Strategy::zero3})
      EXPECT_TRUE(verified(strategy, ranks)) << to_string(strategy) << ", " << ranks;
    EXPECT_EQ(verified(Strategy::hsdp, ranks), ranks >= 4 && ranks % 2 == 0) << ranks;
  }
  for (const auto& row : kStrategies) {
    bool fits = false;
    for (int ranks = 1; ranks <= 4; ++ranks) fits = fits || row.fits(ranks);
    EXPECT_TRUE(fits) << row.name << " is verified in no world of up to four ranks";
  }
}

}  // namespace
}  // namespace shade::catalog
