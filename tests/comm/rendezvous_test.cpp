#include "shade/comm/job/rendezvous.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <future>

#include "shade/comm/job/file_limit.h"
#include "shade/comm/job/sealed_store.h"

namespace shade::comm {
namespace {

struct Meet : testing::Test {
  struct Rank {
    int rank = 0, size = 3;
    std::string words{};  // of its secret; empty: the common one
    std::string transport = "gloo";
  };

  // What it ends with: "met", or why not.
  std::future<std::string> come(const Rank& rank, Seconds limit = Seconds(10)) {
    return std::async(std::launch::async, [this, rank, limit]() -> std::string {
      Rendezvous meeting(c10::make_intrusive<SealedStore>(bare, Secret::of(rank.words.empty() ? words : rank.words)),
                         {.rank = rank.rank, .size = rank.size, .local_size = rank.size, .origin = "the test"}, limit);
      try {
        meeting.join();
        meeting.meet(rank.transport, [] {});
        return "met";
      } catch (const PeerLost& fault) {
        return text("echo: ", fault.what());
      } catch (const CommError& fault) {
        return fault.what();
      }
    });
  }

  c10::intrusive_ptr<c10d::Store> bare = c10::make_intrusive<c10d::HashStore>();
  const std::string words = Secret::new_digits();
};

TEST_F(Meet, AllWhoCameMeet) {
  auto two = come({.rank = 2}), one = come({.rank = 1}), zero = come({.rank = 0});
  for (auto* rank : {&zero, &one, &two}) EXPECT_EQ(rank->get(), "met");
}

TEST_F(Meet, WhoDoesNotComeIsNamedToAll) {
  auto one = come({.rank = 1}), zero = come({.rank = 0}, Seconds(1));
  const std::string words_of_zero = zero.get();
  EXPECT_TRUE(words_of_zero.starts_with("rank 2 of 3 did not come to the rendezvous")) << words_of_zero;
  EXPECT_EQ(one.get(), "echo: the world did not meet: " + words_of_zero);
}

TEST_F(Meet, WithoutRankZeroTheOthersNameIt) {
  EXPECT_TRUE(come({.rank = 1}, Seconds(1)).get().starts_with("rank 0 of 3 did not come to the rendezvous"));
}

TEST_F(Meet, WorldsOfDifferentSizesEndAtOnce) {
  auto one = come({.rank = 1, .size = 2}), zero = come({.rank = 0});
  const std::string reason =
      "rank 1 was started for a world of 2 ranks, rank 0 one of 3; start all ranks with the same world size";
  EXPECT_EQ(zero.get(), reason);
  EXPECT_EQ(one.get(), "echo: the world did not meet: " + reason);
}

// Else each would wait for peers on a transport that they are not on, until a time limit.
TEST_F(Meet, RanksOnDifferentTransportsEndAtOnce) {
  auto one = come({.rank = 1, .size = 2, .transport = "nccl"}), zero = come({.rank = 0, .size = 2});
  const auto reason = zero.get();
  EXPECT_TRUE(reason.starts_with("rank 1 speaks over nccl, rank 0 over gloo; ")) << reason;
  EXPECT_EQ(one.get(), "echo: the world did not meet: " + reason);
}

TEST_F(Meet, TheOneWithAnotherSecretIsNamedOnAllSides) {
  auto zero = come({.rank = 0}), two = come({.rank = 2}), one = come({.rank = 1, .words = Secret::new_digits()});
  EXPECT_TRUE(zero.get().starts_with("rank 1 has another job secret than rank 0: shade/0/place/1 "));
  EXPECT_TRUE(two.get().starts_with("echo: the world did not meet: rank 1 has another job secret than rank 0"));
  EXPECT_TRUE(one.get().starts_with("ranks 0, 2 have another job secret than rank 1: shade/0/place/0 "));
}

// Nobody meets because somebody else says so.
TEST_F(Meet, AForgedWordIsNotBelieved) {
  bare->set("shade/0/met", std::string("all"));
  EXPECT_TRUE(come({.rank = 1}).get().starts_with(text("the value of shade/0/met in the store ", kForged)));
}

TEST_F(Meet, AWordOfAnotherKeyIsNotBelieved) {
  SealedStore(bare, Secret::of(words)).set("shade/0/place/all", std::string("all"));
  bare->set("shade/0/met", bare->get("shade/0/place/all"));
  EXPECT_TRUE(come({.rank = 1}).get().starts_with(text("the value of shade/0/met in the store ", kForged)));
}

TEST_F(Meet, ADeletedArrivalIsNoticed) {
  auto one = come({.rank = 1}, Seconds(1));
  for (int i = 0; i < 100 && !bare->deleteKey("shade/0/place/1"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(one.get().starts_with("the value of shade/0/place/1 in the store was deleted"));
}

TEST(FileLimit, IsRaisedOrNamed) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low{600, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  allow_sockets(500, "a test");
  rlimit raised{};
  ::getrlimit(RLIMIT_NOFILE, &raised);
  EXPECT_EQ(raised.rlim_cur, 756u);
  allow_sockets(10, "a test");
  ::getrlimit(RLIMIT_NOFILE, &raised);
  EXPECT_EQ(raised.rlim_cur, 756u) << "never lowered";
  const auto beyond = static_cast<int64_t>(before.rlim_max);
  try {
    allow_sockets(beyond, "a test");
    FAIL();
  } catch (const CommError& fault) {
    EXPECT_TRUE(std::string(fault.what())
                    .starts_with(text("a test may need ", beyond + 256,
                                      " open files in one process, and the hard limit is ", beyond)))
        << fault.what();
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace shade::comm
