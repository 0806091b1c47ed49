// The search on estimates that are known, not measured.
#include "shade/plan/advice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "shade/base/strings.h"

namespace shade::plan {
namespace {

// A family is a row of its own; the search knows rows by their number.
std::vector<std::string>& rows() {
  static std::vector<std::string> names;
  return names;
}

Edit called(const std::string& name) {
  const auto known = std::find(rows().begin(), rows().end(), name);
  if (known == rows().end()) return {.row = (rows().push_back(name), rows().size() - 1)};
  return {.row = static_cast<size_t>(known - rows().begin())};
}

const std::string& row_of(const Candidate& one) { return rows()[one.edit.row]; }

std::string name_of(const Candidate& one) {
  return text(row_of(one), one.edit.wrap ? " " + to_string(*one.edit.wrap) : "", one.edit.offload ? " true" : "", " ",
              one.batch);
}

std::vector<std::string> names(const Advice& advice) {
  std::vector<std::string> out;
  for (const auto& one : advice.tried) out.push_back(name_of(one.candidate));
  return out;
}

std::vector<std::string> front(const Advice& advice) {
  std::vector<std::string> out;
  for (const auto index : advice.front) out.push_back(name_of(advice.tried[index].candidate));
  return out;
}

using Names = std::vector<std::string>;

TEST(Advice, GrowsABatchUntilItDoesNotFit) {
  const SearchSpace space{.families = {{called("a"), {}}}, .limit = GiB(45)};
  const auto advice = advise(space, [](const Candidate& one) {
    return Estimate{.peak = GiB(10 + 10 * one.batch), .time = 1.0 / static_cast<double>(one.batch), .cost = 1};
  });
  EXPECT_EQ(names(advice), (Names{"a 1", "a 2", "a 4"}));
  EXPECT_EQ(front(advice), (Names{"a 2", "a 1"})) << "fastest first";
  EXPECT_EQ(advice.tried[2].verdict, Verdict::over);
}

TEST(Advice, TriesEveryStatedBatch) {
  const SearchSpace space{.families = {{called("a"), 4}, {called("a"), 16}, {called("a"), 4}}, .limit = GiB(10)};
  const auto advice = advise(space, [](const Candidate& one) { return Estimate{.peak = GiB(one.batch), .time = 1}; });
  EXPECT_EQ(names(advice), (Names{"a 4", "a 16"}));
  EXPECT_EQ(front(advice), (Names{"a 4"}));
}

TEST(Advice, StopsWhereTwiceTheBatchIsNoFaster) {
  const SearchSpace space{.families = {{called("a"), {}}}, .limit = GiB(1000)};
  const auto advice = advise(space, [](const Candidate& one) {
    return Estimate{.peak = GiB(one.batch), .time = 1 + 0.3 / static_cast<double>(one.batch), .cost = 1};
  });
  EXPECT_EQ(names(advice), (Names{"a 1", "a 2", "a 4", "a 8", "a 16"})) << "1.0375 to 1.01875 is 1.8 %";
}

// Work per sample is the same for any batch, traffic per sample is not.
TEST(Advice, GoesOnWhereItGetsCheaperAndRecommendsThat) {
  const SearchSpace space{.families = {{called("a"), {}}}, .limit = GiB(5)};
  const auto advice = advise(space, [](const Candidate& one) {
    const auto batch = static_cast<double>(one.batch);
    return Estimate{.peak = GiB(one.batch), .time = 1 + 0.001 * batch, .cost = 1 / batch};
  });
  EXPECT_EQ(names(advice), (Names{"a 1", "a 2", "a 4", "a 8"}));
  EXPECT_EQ(front(advice), (Names{"a 1", "a 2", "a 4"}));
  EXPECT_EQ(name_of(advice.tried[advice.recommended()].candidate), "a 4");
}

// As large and half as fast with one sample: not tried with two. Leaner: tried.
TEST(Advice, GivesUpWhatAnotherBeats) {
  const SearchSpace space{.families = {{called("a"), {}}, {called("slow"), {}}, {called("lean"), {}}}, .limit = GiB(4)};
  const auto advice = advise(space, [](const Candidate& one) {
    const auto& name = row_of(one);
    const double time = (name == "a" ? 1 : 2) / static_cast<double>(one.batch);
    return Estimate{.peak = GiB(name == "lean" ? one.batch : 2 * one.batch), .time = time, .cost = time};
  });
  EXPECT_EQ(names(advice), (Names{"a 1", "a 2", "a 4", "slow 1", "lean 1", "lean 2", "lean 4", "lean 8"}));
}

TEST(Advice, TriesTheStatedBatchAlone) {
  const SearchSpace space{.families = {{called("a"), 3}, {called("b"), {}}}, .limit = GiB(1)};
  const auto advice =
      advise(space, [](const Candidate& one) { return Estimate{.peak = GiB(one.batch), .time = 1, .cost = 1}; });
  EXPECT_EQ(names(advice), (Names{"a 3", "b 1", "b 2"}));
}

// Four families of one batch: (memory, time, cost).
TEST(Advice, SaysWhichIsBeatenByWhich) {
  const std::map<std::string, Estimate> known{
      {"fast", {.peak = GiB(20), .time = 1, .cost = 4}},
      {"lean", {.peak = GiB(5), .time = 3, .cost = 12}},
      {"cheap", {.peak = GiB(20), .time = 2, .cost = 2}},
      {"poor", {.peak = GiB(25), .time = 1.1, .cost = 5}},
      {"large", {.peak = GiB(64), .time = 0.1, .cost = 1, .blame = "9 GiB of activations"}},
      {"wrong", {.refused = "3 ranks can't be halved"}},
  };
  SearchSpace space{.families = {}, .limit = GiB(32)};
  for (const auto& [name, estimate] : known) space.families.push_back({called(name), 1});
  const auto advice = advise(space, [&](const Candidate& one) { return known.at(row_of(one)); });
  EXPECT_EQ(front(advice), (Names{"fast 1", "cheap 1", "lean 1"}));
  EXPECT_EQ(advice.recommended(), advice.front.front()) << "cheap is not as fast";
  std::map<std::string, std::string> reasons;
  for (const auto& one : advice.tried)
    reasons[row_of(one.candidate)] = reason(advice, one, space.limit, {.name = name_of});
  EXPECT_EQ(reasons["poor"], "10 % slower than fast 1, and needs 5.00 GiB more");
  EXPECT_EQ(reasons["large"], "64.0 GiB: over the limit by 32.0 GiB; 9 GiB of activations");
  EXPECT_EQ(reasons["wrong"], "3 ranks can't be halved");
  EXPECT_EQ(reasons["fast"], "");
}

TEST(Advice, OfTwoAlikeTheFirstIsEnough) {
  const SearchSpace space{.families = {{called("a"), 1}, {called("b"), 1}}, .limit = GiB(32)};
  const auto advice = advise(space, [](const Candidate& one) {
    return Estimate{.peak = {GiB(10).count - (row_of(one) == "b" ? 1000 : 0)}, .time = 1, .cost = 1};
  });
  EXPECT_EQ(advice.front.size(), 1u);
}

TEST(Advice, KeepsLastResortsForTheEnd) {
  const auto search = [](Bytes limit) {
    const SearchSpace space{
        .families = {{called("a"), 1}, {called("b"), 1}}, .last_resorts = {{.offload = true}}, .limit = limit};
    return advise(space, [](const Candidate& one) {
      const bool offloaded = one.edit.offload.value_or(false);
      const Bytes whole = row_of(one) == "a" ? GiB(10) : GiB(20);
      return Estimate{.peak = offloaded ? Bytes{whole.count / 4} : whole, .time = 1, .cost = 1};
    });
  };
  EXPECT_EQ(names(search(GiB(12))), (Names{"a 1", "b 1"}));
  const auto tight = search(GiB(4));
  EXPECT_EQ(names(tight), (Names{"a 1", "b 1", "a true 1", "b true 1"}));
  EXPECT_EQ(front(tight), (Names{"a true 1"}));
  EXPECT_TRUE(search(GiB(1)).front.empty());
}

TEST(Advice, RefinesWhatIsBest) {
  const SearchSpace space{
      .families = {{called("a"), 1}, {called("b"), 1}}, .refinements = {{.wrap = shard::Wrap::none}}, .limit = GiB(32)};
  const auto advice = advise(space, [](const Candidate& one) {
    const bool first = row_of(one) == "a", refined = one.edit.wrap.has_value();
    return Estimate{.peak = first ? GiB(10) : GiB(20), .time = (first ? 1 : 2) - (refined ? 0.5 : 0), .cost = 1};
  });
  EXPECT_EQ(names(advice), (Names{"a 1", "b 1", "a none 1"})) << "b is beaten, and not refined";
  EXPECT_EQ(front(advice), (Names{"a none 1"}));
}

TEST(Advice, FrontHoldsForRandomEstimates) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> any(1, 100);
  SearchSpace space{.families = {}, .limit = GiB(80)};
  for (int i = 0; i < 200; ++i) space.families.push_back({called(std::to_string(i)), 1});
  const auto advice = advise(space, [&](const Candidate&) {
    return Estimate{.peak = {static_cast<int64_t>(any(random) * 0x1p30)}, .time = any(random), .cost = any(random)};
  });
  const std::set<size_t> best(advice.front.begin(), advice.front.end());
  const auto beats = [](const Estimate& a, const Estimate& b) {
    return a.time <= b.time && a.peak <= b.peak && a.cost <= b.cost;
  };
  for (size_t i = 0; i < advice.tried.size(); ++i) {
    const auto& one = advice.tried[i];
    if (one.estimate.peak > space.limit) {
      EXPECT_EQ(one.verdict, Verdict::over);
      continue;
    }
    EXPECT_EQ(one.verdict == Verdict::front, best.contains(i));
    for (const auto other : best)
      EXPECT_FALSE(best.contains(i) && other != i && beats(advice.tried[other].estimate, one.estimate));
    if (best.contains(i)) continue;
    EXPECT_TRUE(best.contains(one.beaten_by));
    const auto& winner = advice.tried[one.beaten_by].estimate;
    EXPECT_LE(winner.time, one.estimate.time);
    EXPECT_LE(static_cast<double>(winner.peak.count), 1.0102 * static_cast<double>(one.estimate.peak.count));
    EXPECT_LE(winner.cost, 1.0102 * one.estimate.cost);
  }
}

TEST(Advice, FindsTheLargestThatFits) {
  for (const int64_t largest : {1, 2, 3, 5, 17, 100, 4095, 4096, 9999})
    for (const int64_t known : {1, 2, 16}) {
      if (known > largest) continue;
      int calls = 0;
      const auto found = largest_that_fits(known, 1, 4096, [&](int64_t n) {
        ++calls;
        EXPECT_GT(n, known);
        EXPECT_LE(n, 4096);
        return n <= largest;
      });
      EXPECT_EQ(found, std::min<int64_t>(largest, 4096)) << known;
      EXPECT_LE(calls, 26);
    }
  EXPECT_EQ(largest_that_fits(128, 64, 1 << 20, [](int64_t n) { return n <= 1000; }), 960) << "in steps of 64";
  EXPECT_EQ(largest_that_fits(100, 64, 1 << 20, [](int64_t n) { return n <= 110; }), 100);
}

}  // namespace
}  // namespace shade::plan
