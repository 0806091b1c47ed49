// What runs spend of one data set: counted ahead, once, by all of them together, up to the cap.
#include "shade/train/budget/data_ledger.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "shade/io/errors.h"
#include "tests/io/scratch.h"
#include "tests/support/fault.h"

namespace shade::train {
namespace {

namespace fs = std::filesystem;

constexpr privacy::Cap kCap{.epsilon = 6, .delta = 1e-5};
const privacy::Mechanism kStep{.sample_rate = 0.2, .noise_multiplier = 2};

Spender spender(const std::string& stretch, const privacy::Mechanism& mechanism = kStep) {
  return {.run = "/runs/" + stretch, .stretch = stretch, .mechanism = mechanism};
}

class DataLedgerTest : public testing::Test {
 protected:
  void SetUp() override { DataLedger::create(file_, kCap); }
  int64_t steps() const {
    int64_t sum = 0;
    for (const auto& entry : DataLedger(file_).read().entries) sum += entry.steps;
    return sum;
  }

  const io::Scratch scratch_;
  const fs::path file_ = scratch_.path() / "data.ledger";
};

TEST_F(DataLedgerTest, CountsReservedStepsOnceAndStopsAtTheCap) {
  const auto room = DataLedger(file_).read().allowed(kStep, 1'000'000);
  ASSERT_GT(room, 20);
  DataLedger a(file_), b(file_);
  EXPECT_EQ(a.reserve(spender("a"), 5), 5);
  EXPECT_EQ(a.reserve(spender("a"), 5), 5) << "reserved before";
  EXPECT_EQ(a.reserve(spender("a"), 3), 5);
  EXPECT_EQ(b.reserve(spender("b"), 7), 7);
  EXPECT_EQ(a.reserve(spender("a"), 9), 9);
  EXPECT_EQ(steps(), 16);
  const auto books = a.read();
  EXPECT_EQ(books.entries.size(), 2U);
  EXPECT_EQ(books.allowed(kStep, 1'000'000), room - 16);
  EXPECT_EQ(b.reserve(spender("b"), 1'000'000), room - 9) << "all that is left";
  EXPECT_EQ(a.reserve(spender("a"), 10), 9) << "there is no room for one more";
  EXPECT_EQ(DataLedger(file_).reserve(spender("c"), 1), 0);
  EXPECT_EQ(a.read().entries.size(), 2U) << "a run without a step leaves no line";
  EXPECT_LE(a.read().filter()->position(), kCap.epsilon);
}

TEST_F(DataLedgerTest, WhatAnOrderedEndGivesBackCanBeSpentAgain) {
  DataLedger ledger(file_);
  const auto room = ledger.read().allowed(kStep, 1'000'000);
  ledger.reserve(spender("a"), 10);
  ledger.close("a", 4);
  EXPECT_EQ(steps(), 4);
  EXPECT_EQ(ledger.read().allowed(kStep, 1'000'000), room - 4);
  EXPECT_NE(test::fault<Error>([&] { ledger.reserve(spender("a"), 5); }), "no error") << "it has ended";
  ledger.reserve(spender("b"), 3);
  ledger.close("b", 3);
  EXPECT_FALSE(ledger.read().find("b")->closed) << "nothing to give back, no line";
}

TEST_F(DataLedgerTest, OrdersAreFixedByTheFirstRun) {
  DataLedger ledger(file_);
  ledger.reserve(spender("a"), 1);
  const auto orders = ledger.read().orders;
  EXPECT_EQ(orders, privacy::filter_orders(kCap, kStep));
  ledger.reserve(spender("b", {.sample_rate = 0.001, .noise_multiplier = 0.6}), 1);
  EXPECT_EQ(ledger.read().orders, orders);
}

TEST_F(DataLedgerTest, RefusesOtherUnits) {
  DataLedger ledger(file_);
  auto users = spender("a");
  users.unit = privacy::PrivacyUnit::user;
  users.unit_by = "author";
  ledger.reserve(users, 1);
  for (const auto& [unit, by] : {std::pair(privacy::PrivacyUnit::record, ""),
                                 {privacy::PrivacyUnit::window, "8 tokens"},
                                 {privacy::PrivacyUnit::user, "editor"}}) {
    auto other = spender("b");
    other.unit = unit;
    other.unit_by = by;
    const auto fault = test::fault([&] { ledger.reserve(other, 1); });
    EXPECT_NE(fault.find("its first run protects one user (author)"), std::string::npos) << fault;
  }
  EXPECT_EQ(steps(), 1);
}

TEST_F(DataLedgerTest, NoticesThatItWasPutBackCutOrEdited) {
  DataLedger ledger(file_);
  ledger.reserve(spender("a"), 1);
  const auto early = io::content(file_);
  ledger.reserve(spender("b"), 2);
  const auto late = io::content(file_);
  scratch_.write("data.ledger", early);
  EXPECT_NE(test::fault<io::FormatError>([&] { ledger.reserve(spender("b"), 3); }).find("has lost or changed line 3"),
            std::string::npos);
  EXPECT_EQ(DataLedger(file_).read().entries.size(), 1U) << "who has not seen the later lines can't know";
  auto edited = late;
  edited.replace(edited.find("\"steps\":2"), 9, "\"steps\":1");
  scratch_.write("data.ledger", edited);
  EXPECT_NE(test::fault<io::FormatError>([&] { (void)DataLedger(file_).read(); }).find("is damaged"),
            std::string::npos);
  scratch_.write("data.ledger", late);
  EXPECT_EQ(ledger.reserve(spender("b"), 3), 3);
}

TEST_F(DataLedgerTest, RefusesFilesThatAreNone) {
  const auto other = scratch_.path() / "other";
  EXPECT_NE(test::fault([&] { (void)DataLedger(other).read(); }).find("cannot open the data ledger"),
            std::string::npos);
  checkpoint::SharedChain(other, "the data ledger").create({{"format", "shade ledger"}, {"version", 2}});
  EXPECT_NE(test::fault<io::FormatError>([&] { (void)DataLedger(other).read(); }).find("no record of version 1"),
            std::string::npos);
  EXPECT_NE(test::fault([&] { DataLedger::create(file_, kCap); }).find("there is a file of that name"),
            std::string::npos);
  EXPECT_NE(test::fault([&] { DataLedger::create(scratch_.path() / "x", {.epsilon = 0, .delta = 1e-5}); }), "no error");
}

// Each of two processes reserves step by step until the cap stops it: together they have all of it, and not a step
// more.
TEST_F(DataLedgerTest, ProcessesShareTheCap) {
  const auto room = DataLedger(file_).read().allowed(kStep, 1'000'000);
  std::vector<int> children;
  for (const char* name : {"a", "b"}) {
    const int child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        DataLedger ledger(file_);
        int64_t wanted = 1;
        while (ledger.reserve(spender(name), wanted) == wanted) ++wanted, std::this_thread::yield();
      } catch (...) {
        ::_exit(1);  // gtest would go on with the next test here
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const int child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(steps(), room);
}

}  // namespace
}  // namespace shade::train
