// The budget of a data set as people use it: shade ledger, shade train --data-ledger, shade account --events.
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>

#include "shade/base/json.h"
#include "tests/io/scratch.h"
#include "tests/support/process.h"

namespace shade::test {
namespace {

using Words = std::vector<std::string>;

class DataLedgerCli : public testing::Test {
 protected:
  std::string place(const std::string& name) const { return (scratch_.path() / name).string(); }
  void create(const std::string& epsilon = "6") const {
    const auto seen = test::run_shade({"ledger", "--create", ledger_, "--epsilon", epsilon, "--delta", "1e-5"});
    ASSERT_EQ(seen.status, 0) << seen.output;
  }
  Words training(const std::string& name, const std::string& steps, const std::string& sigma) const {
    return {shade_binary(), "train",     "--model",       "linear-nano", "--from-scratch", "--synthetic",
            "--records",    "40",        "--batch-size",  "8",           "--micro-batch",  "8",
            "--threads",    "1",         "--peak-gflops", "100",         "--steps",        steps,
            "--sigma",      sigma,       "--sample-rate", "0.2",         "--delta",        "1e-5",
            "--output",     place(name), "--accountant",  "rdp",         "--data-ledger",  ledger_};
  }
  Json shown() const {
    const auto file = place("shown.json");
    const auto seen = test::run_shade({"ledger", ledger_, "--json", file});
    EXPECT_EQ(seen.status, 0) << seen.output;
    return read_json(file);
  }
  static int64_t steps_in(const Json& json) {
    int64_t sum = 0;
    for (const auto& event : json["events"]) sum += event["steps"].get<int64_t>();
    return sum;
  }

  const io::Scratch scratch_;
  const std::string ledger_ = place("data.ledger");
};

TEST_F(DataLedgerCli, TwoRunsAddUpToTheEventsAndAThirdIsStopped) {
  create();
  EXPECT_NE(test::run_shade({"ledger", ledger_}).output.find("nothing was spent"), std::string::npos);
  for (const auto& [name, steps, sigma] : {std::tuple("first", "8", "2"), {"second", "5", "3"}}) {
    const auto seen = run(training(name, steps, sigma));
    ASSERT_EQ(seen.status, 0) << seen.output;
    EXPECT_NE(seen.output.find("data ledger " + ledger_), std::string::npos) << seen.output;
  }
  const auto books = shown();
  EXPECT_EQ(steps_in(books), 13);
  EXPECT_EQ(books["unit"], "record");
  struct stat about{};
  ASSERT_EQ(::stat(place("shown.json").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600U);

  const auto file = place("account.json");
  const auto account = test::run_shade({"account", "--events", place("shown.json"), "--json", file});
  ASSERT_EQ(account.status, 0) << account.output;
  const auto answer = read_json(file);
  EXPECT_EQ(answer["delta"], 1e-5);
  EXPECT_EQ(answer["steps"], 13);
  for (const char* accountant : {"prv", "rdp"})
    EXPECT_NEAR(answer["accountants"][accountant]["epsilon"].get<double>(),
                books["planned_ahead"][accountant].get<double>(), 1e-6)
        << accountant;
  EXPECT_GT(books["used"].get<double>(), books["planned_ahead"]["rdp"].get<double>())
      << "adaptive choices have a price";

  const auto third = run(training("third", "10000", "2"));
  EXPECT_EQ(third.status, 0) << third.output;
  EXPECT_NE(third.output.find("budget spent after step"), std::string::npos) << third.output;
  const auto full = shown();
  EXPECT_LE(full["used"].get<double>(), 6);
  EXPECT_EQ(full["left"][0]["steps"], 0);
  const auto fourth = run(training("fourth", "5", "2"));
  EXPECT_EQ(fourth.status, 2) << fourth.output;
  EXPECT_NE(fourth.output.find("leaves no budget for a step"), std::string::npos) << fourth.output;
  EXPECT_EQ(shown(), full);
  const auto seen = test::run_shade({"ledger", ledger_}).output;
  for (const char* words : {"cap: epsilon 6 at delta 1e-05", "add or remove one record", "third",
                            "if all runs had been planned ahead: epsilon", "left: 0 steps with sigma 2"})
    EXPECT_NE(seen.find(words), std::string::npos) << words << "\n" << seen;
}

TEST_F(DataLedgerCli, ConcurrentRunsInterleave) {
  create("30");
  Running first(training("first", "40", "2")), second(training("second", "40", "2"));
  const auto a = first.finish(), b = second.finish();
  EXPECT_EQ(a.status, 0) << a.output;
  EXPECT_EQ(b.status, 0) << b.output;
  const auto books = shown();
  ASSERT_EQ(books["events"].size(), 2U);
  EXPECT_EQ(books["events"][0]["steps"], 40);
  EXPECT_EQ(books["events"][1]["steps"], 40);
}

// A training run killed again and again: what it had made is always counted, and the run ends as long as it should.
TEST_F(DataLedgerCli, AKilledRunLosesNoStep) {
  create("60");
  auto words = training("run", "300", "2");
  words.insert(words.end(), {"--save-every", "10", "--log-every", "1"});
  for (const int step : {15, 60, 110}) {
    Running running(words);
    ASSERT_TRUE(running.says(text("step ", step, "/"))) << running.output();
    running.signal(SIGKILL);
    running.finish();
    EXPECT_GE(steps_in(shown()), step) << "steps were made that are not counted";
  }
  const auto last = run(words);
  EXPECT_EQ(last.status, 0) << last.output;
  const auto counted = steps_in(shown());
  EXPECT_GE(counted, 300);
  EXPECT_LE(counted, 300 + 3 * 6) << "no more than the blocks of the killed ones";
}

TEST_F(DataLedgerCli, RefusesWhatIsNotMeant) {
  const auto refused = [&](const Words& words) {
    const auto seen = test::run_shade(words);
    EXPECT_EQ(seen.status, 2) << seen.output;
    return seen.output;
  };
  EXPECT_NE(refused({"ledger", "--create", ledger_, "--epsilon", "3"}).find("needs the cap"), std::string::npos);
  EXPECT_NE(refused({"ledger", ledger_}).find("there is no data ledger"), std::string::npos);
  create();
  EXPECT_NE(refused({"ledger", "--create", ledger_, "--epsilon", "9", "--delta", "1e-5"}).find("there is a file"),
            std::string::npos);
  EXPECT_NE(refused({"ledger", ledger_, "--epsilon", "9"}).find("--epsilon has no effect without --create"),
            std::string::npos);
  std::ofstream(place("events.json")) << R"([{"sigma": 1, "sample_rate": 0.1, "step": 5}])";
  EXPECT_NE(refused({"account", "--events", place("events.json")}).find("event 1: the key 'step' is unknown"),
            std::string::npos);
  EXPECT_NE(refused({"account", "--events", place("events.json"), "--sigma", "1"}).find("drop one of them"),
            std::string::npos);
  auto plain = training("plain", "1", "0");
  plain.insert(plain.end(), {"--dp", "none"});
  const auto seen = run(plain);
  EXPECT_EQ(seen.status, 2) << seen.output;
  EXPECT_NE(seen.output.find("counts private steps, and this run is not private"), std::string::npos) << seen.output;
}

}  // namespace
}  // namespace shade::test
