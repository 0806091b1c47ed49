#include "shade/comm/job/board.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "shade/comm/errors.h"
#include "shade/comm/job/session.h"

namespace shade::comm {
namespace {

TEST(Board, ABeatSurvivesTheStore) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  Board board(store, kOnlySession);
  EXPECT_FALSE(board.any(2));
  board.post(1, {.count = 7, .standing = Standing::running, .waiting = true, .progress = 9, .where = "waits in x y"});
  EXPECT_TRUE(board.any(2));
  const auto beat = board.read(1);
  ASSERT_TRUE(beat);
  EXPECT_EQ(beat->count, 7u);
  EXPECT_EQ(beat->standing, Standing::running);
  EXPECT_TRUE(beat->waiting);
  EXPECT_EQ(beat->progress, 9u);
  EXPECT_EQ(beat->where, "waits in x y");
  EXPECT_FALSE(board.read(0));
  EXPECT_FALSE(Board(store, "another").read(1)) << "a restarted world doesn't see its predecessor";
}

TEST(Board, TheFirstVerdictStays) {
  Board board(c10::make_intrusive<c10d::HashStore>(), kOnlySession);
  EXPECT_FALSE(board.verdict());
  board.set_verdict("rank 2 is dead");
  board.set_verdict("rank 1 is dead");
  EXPECT_EQ(board.verdict(), "rank 2 is dead");
}

std::string fault(const std::function<void()>& part) {
  try {
    part();
  } catch (const SealBroken& broken) {
    return broken.what();
  }
  return "none";
}

TEST(Board, ABeatThatWasReadNeitherVanishesNorGetsOlder) {
  const c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>();
  Board board(store, kOnlySession);
  board.post(0, {.count = 1, .standing = Standing::running, .where = "computes"});
  board.post(1, {.count = 7, .standing = Standing::running, .where = "computes"});
  const auto recorded = store->get("shade/0/board/beat/1");
  board.post(1, {.count = 8, .standing = Standing::running, .where = "computes"});
  EXPECT_EQ(board.read_all(2).size(), 2u);

  store->set("shade/0/board/beat/1", recorded);
  const std::string older = "the value of shade/0/board/beat/1 in the store was replaced by an older one";
  EXPECT_TRUE(fault([&] { board.read(1); }).starts_with(older));
  EXPECT_TRUE(fault([&] { board.read_all(2); }).starts_with(older));

  store->deleteKey("shade/0/board/beat/1");
  const std::string deleted = "the value of shade/0/board/beat/1 in the store was deleted";
  EXPECT_TRUE(fault([&] { board.read(1); }).starts_with(deleted));
  EXPECT_TRUE(fault([&] { board.read_all(2); }).starts_with(deleted));
  EXPECT_TRUE(fault([&] { Board(store, kOnlySession).read_all(2); }).starts_with(deleted)) << "all have joined";
}

TEST(Board, PositionsNameTheOddOneOutFirst) {
  const Beat waits{.standing = Standing::running, .where = "waits in all_gather unit 8"};
  const std::vector<std::optional<Beat>> beats{
      waits,
      waits,
      Beat{.standing = Standing::running, .where = "waits in all_gather unit 7"},
      waits,
      std::nullopt,
      Beat{.standing = Standing::failed, .where = "no space"},
      Beat{.standing = Standing::left, .where = "ignored"}};
  EXPECT_EQ(describe_positions(beats),
            "rank 5: failed: no space; rank 6: had left; rank 4: never joined; rank 2: waits in all_gather unit 7; "
            "ranks 0, 1, 3: waits in all_gather unit 8");
}

}  // namespace
}  // namespace shade::comm
