#include "shade/comm/job/watchdog.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <atomic>
#include <future>
#include <thread>

#include "shade/comm/job/board.h"
#include "shade/comm/job/sealed_store.h"

namespace shade::comm {
namespace {

struct Watched {
  Watched(c10::intrusive_ptr<c10d::Store> store, int rank, int size, Seconds stall = Seconds(60))
      : dog(std::move(store), activity,
            {.rank = rank,
             .size = size,
             .peer_timeout = Seconds(1),
             .stall_timeout = stall,
             .store_host = "here",
             .lost = [this](const Loss& loss) {
               echo = loss.echo;
               verdict.set_value(loss.message);
             }}) {}

  std::string wait_for_verdict() {
    auto future = verdict.get_future();
    return future.wait_for(std::chrono::seconds(5)) == std::future_status::ready ? future.get() : "none";
  }

  std::shared_ptr<Activity> activity = std::make_shared<Activity>();
  std::promise<std::string> verdict;
  std::atomic<bool> echo{true};
  Watchdog dog;
};

TEST(Watchdog, AStandingBeatIsASilentPeer) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  Board(store, kOnlySession)
      .post(1, {.count = 3, .standing = Standing::running, .where = "waits in all_gather unit 7"});
  Watched zero(store, 0, 2);
  zero.activity->joined();
  zero.dog.all_joined();
  EXPECT_EQ(zero.wait_for_verdict(),
            "rank 1 is stopped or dead: no sign of life for 600 ms. Where the ranks were: rank 0: computes, before its "
            "first collective; rank 1: waits in all_gather unit 7");
  EXPECT_TRUE(Board(store, kOnlySession).verdict()) << "the others can read it";
}

TEST(Watchdog, RankZeroIsWatchedByTheOthers) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  Board(store, kOnlySession).post(0, {.count = 3, .standing = Standing::running, .where = "computes"});
  Watched one(store, 1, 2);
  one.dog.all_joined();
  EXPECT_TRUE(one.wait_for_verdict().starts_with("rank 0 is stopped or dead"));
}

TEST(Watchdog, AFailureIsToldWithItsReason) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  Watched zero(store, 0, 2);
  Watched one(store, 1, 2);
  zero.dog.all_joined();
  one.dog.all_joined();
  one.dog.fail("disk full");
  EXPECT_TRUE(zero.wait_for_verdict().starts_with("rank 1 failed: disk full. Where the ranks were:"));
}

TEST(Watchdog, SlowAndLeavingPeersAreNoFailure) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  Watched zero(store, 0, 2);
  Watched one(store, 1, 2);  // computes all the time; its beat goes on
  zero.dog.all_joined();
  one.dog.all_joined();
  auto verdict = zero.verdict.get_future();
  EXPECT_EQ(verdict.wait_for(std::chrono::milliseconds(1500)), std::future_status::timeout);
  one.dog.leave();
  EXPECT_EQ(verdict.wait_for(std::chrono::milliseconds(1500)), std::future_status::timeout);
}

// Rank 1 doesn't read its own beat; it hears of it from rank 0.
TEST(Watchdog, AForgedBeatEndsTheJobOnAllRanks) {
  const c10::intrusive_ptr<c10d::Store> bare = c10::make_intrusive<c10d::HashStore>();
  const auto words = Secret::new_digits();
  const auto sealed = [&] { return c10::make_intrusive<SealedStore>(bare, Secret::of(words)); };
  Watched zero(sealed(), 0, 2);
  Watched one(sealed(), 1, 2);
  zero.dog.all_joined();
  one.dog.all_joined();
  std::atomic<bool> over{false};
  std::thread intruder([&] {
    while (!over) bare->set("shade/0/board/beat/1", std::string("9 failed 0 0 EVIL"));
  });
  const auto seen = zero.wait_for_verdict();
  over = true;
  intruder.join();
  EXPECT_TRUE(seen.starts_with("the value of shade/0/board/beat/1 in the store was written by somebody who")) << seen;
  EXPECT_EQ(seen.find("EVIL"), std::string::npos);
  EXPECT_FALSE(zero.echo);
  EXPECT_EQ(one.wait_for_verdict(), seen);
  EXPECT_TRUE(one.echo);
}

// The verdict on two ranks that begin different operations: `begin` says how.
std::string verdict_on_two(void (*begin)(Activity&, const std::string&)) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  Watched zero(store, 0, 2, Seconds(0.5));
  Watched one(store, 1, 2, Seconds(0.5));
  begin(*zero.activity, "all_gather unit 8");
  begin(*one.activity, "all_gather unit 7");
  zero.dog.all_joined();
  one.dog.all_joined();
  return zero.wait_for_verdict();
}

TEST(Watchdog, RanksThatWaitForEachOtherAreNamed) {
  const auto verdict = verdict_on_two([](Activity& rank, const std::string& what) { rank.begin_wait(what); });
  EXPECT_NE(verdict.find("the ranks don't issue the same collectives in the same order"), std::string::npos) << verdict;
  EXPECT_NE(verdict.find("rank 1: waits in all_gather unit 7"), std::string::npos) << verdict;
}

// A stream's wait blocks no thread: the operation that the device doesn't complete is what is seen.
TEST(Watchdog, RanksWhoseDevicesWaitForEachOtherAreNamed) {
  const auto verdict = verdict_on_two([](Activity& rank, const std::string& what) { rank.begin_flight(what); });
  EXPECT_NE(verdict.find("the ranks don't issue the same collectives in the same order"), std::string::npos) << verdict;
  EXPECT_NE(verdict.find("rank 1: waits on its device in all_gather unit 7"), std::string::npos) << verdict;
}

TEST(Watchdog, CompletedFlightsAreNoWait) {
  Activity activity;
  const auto first = activity.begin_flight("unit 1"), second = activity.begin_flight("unit 2");
  EXPECT_FALSE(activity.snapshot(Seconds(60)).waiting) << "not overdue";
  EXPECT_EQ(activity.snapshot(Seconds(0)).where, "waits on its device in unit 1");
  activity.end_flight(first);
  EXPECT_EQ(activity.snapshot(Seconds(0)).where, "waits on its device in unit 2");
  activity.end_flight(second);
  EXPECT_FALSE(activity.snapshot(Seconds(0)).waiting);
}

// NCCL's abort waits for its kernels, which may never end: the process must.
TEST(Watchdog, AnAbortThatBlocksKeepsNobodyFromEnding) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  Board(store, kOnlySession).post(1, {.count = 3, .standing = Standing::running, .where = "computes"});
  std::promise<void> released;
  auto release = released.get_future().share();
  std::promise<std::string> overdue;
  {
    Watchdog dog(store, std::make_shared<Activity>(),
                 {.rank = 0,
                  .size = 2,
                  .peer_timeout = Seconds(1),
                  .lost = [release](const Loss&) { release.wait(); },
                  .overdue = [&](const Loss& loss) { overdue.set_value(loss.message); }});
    dog.all_joined();
    auto said = overdue.get_future();
    ASSERT_EQ(said.wait_for(std::chrono::seconds(5)), std::future_status::ready);
    EXPECT_TRUE(said.get().starts_with("rank 1 is stopped or dead"));
    released.set_value();
  }
}

TEST(Watchdog, BeatsLessOftenInALargeWorld) {
  EXPECT_DOUBLE_EQ(beat_interval(Seconds(9), 2).count(), 0.3);
  EXPECT_DOUBLE_EQ(beat_interval(Seconds(9), 2048).count(), 0.512);
  EXPECT_DOUBLE_EQ(beat_interval(Seconds(9), 100'000).count(), 0.9);
}

}  // namespace
}  // namespace shade::comm
