#include "shade/comm/session.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <future>

#include "shade/comm/errors.h"
#include "shade/comm/world.h"

namespace shade::comm {
namespace {

TEST(Session, IsTheOneOfThisStart) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  Reception first(store);
  Visitor dead(store), early(store);
  EXPECT_FALSE(early.told());
  first.answer();
  EXPECT_EQ(early.told(), first.session());

  Visitor late(store);  // rank 0 of the new start is not there yet; the old one is gone
  EXPECT_FALSE(late.told());
  Reception second(store);
  EXPECT_NE(second.session(), first.session());
  EXPECT_FALSE(late.told());
  second.answer();
  EXPECT_EQ(late.told(), second.session());
  Visitor last(store);
  second.answer();
  EXPECT_EQ(last.told(), second.session());
}

TEST(Session, ANoteThatIsCountedBeforeItIsWrittenIsAnsweredToo) {
  const c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>();
  store->add("shade/lobby/notes", 1);
  Reception reception(store);
  Visitor other(store);
  reception.answer();
  EXPECT_EQ(other.told(), reception.session());
  store->set("shade/lobby/note/0", std::string("slow"));
  reception.answer();
  EXPECT_EQ(store->get_to_str("shade/lobby/answer/slow"), reception.session());
}

// torchrun's agents keep one store, and each counts restarts for itself: a world must not care what is left in it.
TEST(Session, AWorldIsMadeAgainInAStoreThatRemembersAFailedOne) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto start = [&](int ranks, bool fails) {
    std::vector<std::future<void>> all;
    for (int rank = 0; rank < ranks; ++rank)
      all.push_back(std::async(std::launch::async, [=] {
        try {
          auto world = World::connect({.rank = rank, .size = ranks, .local_size = ranks, .store_reused = true},
                                      {.peer_timeout = Seconds(2), .rendezvous_timeout = Seconds(10)}, store, {});
          if (fails) return world.fail(std::make_exception_ptr(CommError("on purpose")));
          world.group("all").barrier().wait();
          world.leave();
        } catch (const CommError&) {
          if (!fails) throw;  // else it is the echo of another rank
        }
      }));
    for (auto& rank : all) rank.get();
  };
  start(3, /*fails=*/true);
  start(2, /*fails=*/false);
  start(3, /*fails=*/true);
  start(3, /*fails=*/false);
}

TEST(Session, WhoWaitsInVainForRankZeroSaysSo) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  try {
    World::connect({.rank = 1, .size = 2, .local_size = 2, .store_reused = true}, {.rendezvous_timeout = Seconds(1)},
                   store, {});
    FAIL();
  } catch (const CommError& fault) {
    EXPECT_TRUE(std::string(fault.what()).starts_with("rank 0 of 2 did not come to the rendezvous")) << fault.what();
  }
}

}  // namespace
}  // namespace shade::comm
