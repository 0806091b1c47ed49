// Which rows are compared, in which order they run, and when it is enough.
#include "shade/measure/rounds.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <thread>

namespace shade::measure {
namespace {

// Rows of a product of axes, as expand() makes them.
std::vector<MatrixRow> product(const std::vector<Axis>& axes) {
  std::vector<MatrixRow> rows{{}};
  for (const auto& [option, values] : axes) {
    std::vector<MatrixRow> longer;
    for (const auto& row : rows)
      for (const auto& value : values) {
        longer.push_back(row);
        longer.back().varied.emplace_back(option, value);
        longer.back().name += (row.name.empty() ? "" : "_") + value;
      }
    rows = std::move(longer);
  }
  return rows;
}

std::map<std::string, std::string> compared(const std::vector<MatrixRow>& rows) {
  std::map<std::string, std::string> out;
  const auto references = references_of(rows);
  for (size_t i = 0; i < rows.size(); ++i) out[rows[i].name] = references[i] ? rows[*references[i]].name : "";
  return out;
}

TEST(References, MethodsAgainstNoPrivacyAndStrategiesAgainstTheFirst) {
  const std::map<std::string, std::string> expected{{"ghost_zero2", "vanilla_zero2"},
                                                    {"ghost_zero3", "vanilla_zero3"},
                                                    {"vanilla_zero2", ""},
                                                    {"vanilla_zero3", "vanilla_zero2"}};
  EXPECT_EQ(compared(product({{"--dp", {"ghost", "vanilla"}}, {"--shard", {"zero2", "zero3"}}})), expected);
}

TEST(References, MoreWorkIsNotSlower) {
  const auto rows =
      product({{"--seq-length", {"8", "16"}}, {"--dp", {"ghost", "flash"}}, {"--batch-size", {"1", "2"}}});
  auto found = compared(rows);
  EXPECT_EQ(found["16_flash_2"], "16_ghost_2");
  EXPECT_EQ(found["16_ghost_2"], "");
  EXPECT_EQ(groups_of(references_of(rows)).size(), 4u);
}

TEST(Rounds, RunGroupsTogetherAndInRandomOrder) {
  Rounds rounds(product({{"--seq-length", {"8", "16"}}, {"--dp", {"none", "ghost"}}}), {.repeat = 40});
  std::set<std::vector<size_t>> orders;
  while (!rounds.enough()) {
    const auto order = rounds.next_round();
    ASSERT_EQ(order.size(), 4u);
    EXPECT_EQ(order[0] / 2, order[1] / 2) << "a row and its reference are neighbours";
    orders.insert(order);
  }
  EXPECT_EQ(rounds.done(), 40);
  EXPECT_EQ(orders.size(), 4u) << "every order of both pairs";
}

const auto kPair = product({{"--dp", {"none", "ghost"}}});

TEST(Rounds, StopAtTheFirstLookIfRatiosArePrecise) {
  Rounds rounds(kPair, {.repeat = 0, .budget = Seconds(60)});
  while (!rounds.enough())
    for (const auto row : rounds.next_round()) rounds.record(row, row == 0 ? 10 : 12);
  EXPECT_EQ(rounds.done(), 9);
  EXPECT_EQ(rounds.ratio(1)->verdict(), "slower");
  EXPECT_EQ(rounds.ratio(1)->reference, "none");
  EXPECT_FALSE(rounds.ratio(0));
  EXPECT_EQ(rounds.advice(), "");
}

TEST(Rounds, StopWhenTheNextOneWouldNotEndInTime) {
  Rounds rounds(kPair, {.repeat = 0, .budget = Seconds(0.2)});
  while (!rounds.enough()) {
    for (const auto row : rounds.next_round())
      rounds.record(row, row == 0 ? 10 : 5 + static_cast<double>(rounds.done() % 7));
    std::this_thread::sleep_for(Seconds(0.05));
  }
  EXPECT_GE(rounds.done(), 2);
  EXPECT_LE(rounds.done(), 4);
  EXPECT_NE(rounds.advice().find("--repeats 9"), std::string::npos) << rounds.advice();
}

TEST(Rounds, WithoutABudgetRoundsThatWouldNotReachAnIntervalAreNotBegun) {
  Rounds rounds(kPair, {.repeat = 0, .budget = {}, .most = Seconds(0.2)});
  while (!rounds.enough()) {
    for (const auto row : rounds.next_round()) rounds.record(row, 10);
    std::this_thread::sleep_for(Seconds(0.05));
  }
  EXPECT_EQ(rounds.done(), 1);
}

TEST(Rounds, ARowThatFailedRunsOnceAndOneWithoutReferenceToo) {
  Rounds rounds(kPair, {.repeat = 0, .budget = Seconds(60)});
  while (!rounds.enough())
    for (const auto row : rounds.next_round()) row == 0 ? rounds.failed(row) : rounds.record(row, 12);
  EXPECT_EQ(rounds.done(), 1);
  EXPECT_FALSE(rounds.ratio(1));
  Rounds lengths(product({{"--seq-length", {"8", "16"}}}), {});
  while (!lengths.enough())
    for (const auto row : lengths.next_round()) lengths.record(row, 12);
  EXPECT_EQ(lengths.done(), 1) << "nothing is compared";
}

}  // namespace
}  // namespace shade::measure
