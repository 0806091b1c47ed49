// Values in the store and messages of groups, sealed.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <atomic>
#include <future>
#include <thread>

#include "shade/comm/backends/simulated.h"
#include "shade/comm/job/rendezvous.h"
#include "shade/comm/job/sealed_store.h"
#include "shade/comm/store.h"
#include "tests/support/ranks.h"

namespace shade::comm {
namespace {

struct Sealed : testing::Test {
  c10::intrusive_ptr<c10d::Store> bare = c10::make_intrusive<c10d::HashStore>();
  const std::string words = Secret::new_digits();
  c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<SealedStore>(bare, Secret::of(words));

  std::string fault(const std::string& key) const {
    try {
      store->get(key);
    } catch (const SealBroken& broken) {
      return broken.what();
    }
    return "none";
  }
};

TEST_F(Sealed, ValuesAreReadByWhoHasTheSecret) {
  store->set("a", std::string("running"));
  store->multiSet({"b", "c"}, {{1, 2}, {}});
  EXPECT_EQ(bare->get_to_str("a").find("running"), std::string::npos);
  const auto other = c10::make_intrusive<SealedStore>(bare, Secret::of(words))->clone();
  EXPECT_EQ(other->get_to_str("a"), "running");
  EXPECT_EQ(other->multiGet({"b", "c"}), (std::vector<std::vector<uint8_t>>{{1, 2}, {}}));
  EXPECT_TRUE(other->check({"a", "b", "c"}));
}

TEST_F(Sealed, ForgedAndMovedValuesNameTheKey) {
  store->set("shade/0/place/1", std::string("2"));
  store->set("shade/0/place/0", std::string("2"));
  bare->set("shade/0/place/0", bare->get("shade/0/place/1"));
  bare->set("evil", std::string("EVIL WORDS"));
  for (const std::string key : {"shade/0/place/0", "evil"})
    EXPECT_EQ(fault(key), text("the value of ", key,
                               " in the store was written by somebody who doesn't have the job secret. Nothing of it "
                               "was used; let only the job's hosts reach the store's port (SECURITY.md)"));
  EXPECT_THROW(store->multiGet({"shade/0/place/1", "evil"}), SealBroken);
  EXPECT_THROW(store->compareSet("evil", std::string(), std::string("ours")), SealBroken);
}

TEST_F(Sealed, APrefixIsPartOfTheName) {
  const c10::intrusive_ptr<c10d::Store> inner = c10::make_intrusive<c10d::PrefixStore>("shade/0", store);
  inner->set("x", std::string("1"));
  EXPECT_EQ(store->get_to_str("shade/0/x"), "1");
  bare->set("shade/1/x", bare->get("shade/0/x"));
  EXPECT_NE(fault("shade/1/x"), "none");
}

TEST_F(Sealed, TheFirstOfTwoIsKept) {
  EXPECT_EQ(store->compareSet("verdict", std::string(), std::string("first")), "first");
  EXPECT_EQ(store->compareSet("verdict", std::string(), std::string("second")), "first");
}

TEST_F(Sealed, APeekTakesWhatIsThereAndChangesNothing) {
  EXPECT_FALSE(peek(*store, "x"));
  EXPECT_FALSE(bare->check({"x"}));
  store->set("x", std::string("1"));
  EXPECT_EQ(peek(*store, "x"), "1");
  EXPECT_EQ(peek(*store, "x"), "1");
  bare->set("x", std::string("EVIL"));
  EXPECT_THROW(peek(*store, "x"), SealBroken);
  bare->deleteKey("x");
  EXPECT_FALSE(peek(*store, "x"));
}

// Everything that a whole world leaves in its store, addresses of groups included, opens for the job alone.
TEST_F(Sealed, AWorldLeavesNothingInClear) {
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&, rank] {
      auto world = World::connect({.rank = rank, .size = 2, .local_size = 2}, {}, bare, {.secret = Secret::of(words)});
      world.group("g").barrier().wait();
      world.leave();
    });
  for (auto& rank : ranks) rank.join();
  const auto keys = bare->listKeys();
  EXPECT_GE(keys.size(), 6u);
  int of_group = 0;
  for (const auto& key : keys) {
    EXPECT_EQ(fault(key), "none") << key;
    of_group += key.find("/group/g/") != std::string::npos ? 1 : 0;
  }
  EXPECT_GE(of_group, 2);
}

TEST_F(Sealed, AForgedGoodbyeIsNotBelieved) {
  const auto connect = [&](int rank) {
    return World::connect({.rank = rank, .size = 2, .local_size = 2, .store_port = 1}, {}, bare,
                          {.watchdog = false, .secret = Secret::of(words)});
  };
  auto other = std::async(std::launch::async, connect, 1);
  auto host = connect(0);
  auto still_works = other.get();
  bare->set("shade/0/farewell/1", std::string("1"));
  try {
    host.leave();
    FAIL();
  } catch (const SealBroken& broken) {
    EXPECT_TRUE(std::string(broken.what()).starts_with("the value of shade/0/farewell/1 in the store was written by"));
  }
  still_works.leave();
}

// Somebody overwrites each value of a group as soon as it is written.
struct Forging final : c10d::HashStore {
  using HashStore::set;
  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    const bool meant = key.find("/group/g/") != std::string::npos;
    HashStore::set(key, meant ? std::vector<uint8_t>{'E', 'V', 'I', 'L'} : value);
  }
};

// An attacker who could write the addresses of a group could take a rank's place.
TEST_F(Sealed, AForgedAddressOfAGroupIsNotConnectedTo) {
  const auto forged = c10::make_intrusive<Forging>();
  std::vector<std::future<std::string>> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.push_back(std::async(std::launch::async, [&, rank]() -> std::string {
      auto world = World::connect({.rank = rank, .size = 2, .local_size = 2}, {.rendezvous_timeout = Seconds(1)},
                                  forged, {.watchdog = false, .secret = Secret::of(words)});
      try {
        world.group("g");
      } catch (const CommError& error) {
        world.fail(std::current_exception());
        return error.what();
      }
      return "connected";
    }));
  std::string both;
  for (auto& rank : ranks) both += rank.get() + "\n";
  EXPECT_NE(both.find("the value of shade/0/group/g/"), std::string::npos) << both;
  EXPECT_EQ(both.find("connected\n"), std::string::npos) << both;
}

// Two ranks whose connection a library has opened; one of them may have another secret.
std::vector<std::string> faults_of_proofs(const Secret& of_rank0, const Secret& of_rank1, int place_of_rank1 = 1) {
  const auto meeting = make_meeting(2);
  std::vector<std::future<std::string>> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.push_back(std::async(std::launch::async, [&, rank]() -> std::string {
      const auto transport = make_native(
          make_simulated(rank, 2, {.journal = std::make_shared<Journal>(), .global_ranks = {4, 6}, .meeting = meeting}),
          rank, 2);
      try {
        prove(*transport, {.group = "g",
                           .rank = rank == 1 ? place_of_rank1 : 0,
                           .global_ranks = {4, 6},
                           .secret = rank == 0 ? of_rank0 : of_rank1});
      } catch (const CommError& error) {
        return error.what();
      }
      return "none";
    }));
  return {ranks[0].get(), ranks[1].get()};
}

TEST(Proof, ConnectionsOfLibrariesProveEveryRankInItsPlace) {
  const auto secret = Secret::of(Secret::new_digits());
  EXPECT_EQ(faults_of_proofs(secret, secret), (std::vector<std::string>{"none", "none"}));
  const auto refused = [](int rank) {
    return text(
        "group g: the process in place of rank ", rank,
        " does not have the job secret. Nothing of the run was sent; let only the job's hosts and its user reach "
        "its ports (SECURITY.md)");
  };
  EXPECT_EQ(faults_of_proofs(secret, Secret::of(Secret::new_digits())),
            (std::vector<std::string>{refused(6), refused(4)}));
  EXPECT_EQ(faults_of_proofs(secret, secret.derived("another group"))[0], refused(6));
  EXPECT_EQ(faults_of_proofs(secret, secret, /*place_of_rank1=*/0)[0], refused(6)) << "a proof for another place";
}

TEST(SealedWords, EveryRankHasThem) {
  test::run_ranks(3, test::As::threads, [](World& world) {
    const auto group = world.group("control");
    for (int round = 0; round < 2; ++round) {
      std::vector<uint8_t> key(32, static_cast<uint8_t>(world.rank() == 0 ? 7 + round : 0));
      share(group, key, text("run key in rank ", world.rank(), "'s own words"));
      EXPECT_EQ(key, std::vector<uint8_t>(32, static_cast<uint8_t>(7 + round)));
      share(group, {}, "nothing");
      const auto all = gather_texts(group, std::string(static_cast<size_t>(world.rank()), 'x'), 2, "errors");
      EXPECT_EQ(all, (std::vector<std::string>{"", "x", "xx"}));
    }
  });
}

// Rank 0 skips a message: the next one must not be taken for it.
TEST(SealedWords, AnotherMessageIsNotTaken) {
  test::run_ranks(2, test::As::threads, [](World& world) {
    const auto group = world.group("control");
    std::vector<uint8_t> key(32);
    if (world.rank() == 0) {
      const auto sealed = group.seals().secret.seal("share 0", key);
      ++group.seals().count;
      group.broadcast(at::from_blob(const_cast<uint8_t*>(sealed.data()), {72}, at::kByte)).wait();
      group.broadcast(at::from_blob(const_cast<uint8_t*>(sealed.data()), {72}, at::kByte)).wait();
      return;
    }
    share(group, key, "run key");
    EXPECT_THROW(share(group, key, "run key"), CommError);
  });
}

TEST(SealedWords, ASimulatedRankKeepsItsOwn) {
  auto world = World::simulated(1, 4);
  const auto group = world.group("control");
  std::vector<uint8_t> key(32, 5);
  share(group, key, "run key");
  EXPECT_EQ(key[31], 5);
  EXPECT_EQ(gather_texts(group, "x", 3, "errors"), std::vector<std::string>(4, "x"));
  group.seals().solo = false;  // now it is a real group in which one rank's words stand in every rank's place
  EXPECT_THROW(gather_texts(group, "x", 3, "errors"), CommError);
}

}  // namespace
}  // namespace shade::comm
