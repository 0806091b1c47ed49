#include "shade/comm/job/session.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <future>

#include "shade/comm/job/sealed_store.h"
#include "shade/comm/world.h"

namespace shade::comm {
namespace {

TEST(Session, IsTheOneOfThisStart) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  SessionHost first(store, 4);
  SessionClient dead(store, 3), early(store, 1);
  EXPECT_FALSE(early.session());
  first.answer();
  EXPECT_EQ(early.session(), first.session());

  SessionClient late(store, 1);  // rank 0 of the new start is not there yet; the old one is gone
  EXPECT_FALSE(late.session());
  SessionHost second(store, 3);
  EXPECT_NE(second.session(), first.session());
  EXPECT_FALSE(late.session());
  second.answer();
  EXPECT_EQ(late.session(), second.session());
  SessionClient last(store, 2);
  second.answer();
  EXPECT_EQ(last.session(), second.session());
}

// A recorded answer of an earlier start answers another word; a recorded note is answered for nobody.
TEST(Session, WhatWasRecordedInAnotherStartIsOfNoUse) {
  const auto words = Secret::new_digits();
  const auto yesterday = c10::make_intrusive<c10d::HashStore>(), today = c10::make_intrusive<c10d::HashStore>();
  const auto sealed = [&](const c10::intrusive_ptr<c10d::Store>& store) {
    return c10::make_intrusive<SealedStore>(store, Secret::of(words));
  };
  SessionHost old(sealed(yesterday), 2);
  SessionClient then(sealed(yesterday), 1);
  old.answer();
  const auto session = then.session();
  ASSERT_TRUE(session);

  SessionClient now(sealed(today), 1);
  for (const auto& key : yesterday->listKeys()) {
    if (key.find("answer") == std::string::npos) continue;
    for (const auto& asked : today->listKeys()) EXPECT_NE(key, asked);
    today->set(key, yesterday->get(key));
  }
  EXPECT_FALSE(now.session());
}

TEST(Session, ARankWithAnotherSecretIsNamedOnBothSides) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto start = [&](int rank) -> std::string {
    try {
      World::connect({.rank = rank, .size = 2, .local_size = 2, .store_reused = true},
                     {.rendezvous_timeout = Seconds(10)}, store, {.secret = Secret::of(Secret::new_digits())});
      return "joined";
    } catch (const CommError& fault) {
      return fault.what();
    }
  };
  auto other = std::async(std::launch::async, start, 1);
  EXPECT_TRUE(start(0).starts_with("rank 1 has another job secret than rank 0: shade/lobby/note/1"));
  EXPECT_TRUE(other.get().starts_with("rank 0 has another job secret than rank 1: shade/lobby/note/0"));
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
