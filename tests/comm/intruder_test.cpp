// Somebody else reaches the store of a running job: an outside client that lists, forges, moves, replays and deletes.
// The job ends, names the key, exits with 1, and repeats nothing that the intruder wrote. And ranks without the secret.
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <filesystem>
#include <future>
#include <thread>

#include "shade/base/strings.h"
#include "shade/comm/job/secret.h"
#include "tests/support/process.h"

namespace shade::comm {
namespace {

// Two ranks without a launcher: rank 0 hosts the store. The output ends with both exit statuses.
std::string two_ranks(int port, const std::string& command, const std::string& before_rank1 = "") {
  return text("export MASTER_PORT=", port, " WORLD_SIZE=2; (", before_rank1, " RANK=1 ", command,
              ") & other=$!; RANK=0 ", command, "; zero=$?; wait $other; echo statuses $zero $?");
}

constexpr const char* kEndless = " comm --sizes 1MiB --num-iter 1000000 --collectives all_reduce";

using Intrusion = std::function<void(c10d::Store&, const std::string& board)>;

struct Case {
  std::string name;
  Intrusion once;   // before it begins
  Intrusion again;  // until the job has ended
  std::string expected;
};

test::Outcome intrude(const Case& c) {
  const int port = test::new_port();
  auto job = std::async(std::launch::async, [&] {
    return test::run({"sh", "-c", two_ranks(port, test::shade_binary() + kEndless)}, {.limit = Seconds(40)});
  });
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(port);
  options.waitWorkers = false;
  options.timeout = std::chrono::seconds(10);
  c10::intrusive_ptr<c10d::TCPStore> store;
  try {
    store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  } catch (const std::exception&) {
    return job.get();  // its words say why
  }
  std::string board;
  for (int i = 0; i < 300 && board.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    for (auto key : store->listKeys())
      if (const auto at = key.find("/board/beat/1"); at != std::string::npos)
        board = key.substr(key.find("shade/"), at + 6 - key.find("shade/"));
  }
  std::this_thread::sleep_for(std::chrono::seconds(2));  // everybody is in
  try {
    if (c.once) c.once(*store, board);
    while (job.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) c.again(*store, board);
  } catch (const std::exception&) {  // the store went with rank 0
  }
  auto seen = job.get();
  for (size_t at = 0; !board.empty() && (at = seen.output.find(board)) != std::string::npos;)
    seen.output.replace(at, board.size(), "BOARD");
  return seen;
}

TEST(Intruder, CannotSpeakForTheJob) {
  const std::string forged = "was written by somebody who doesn't have the job secret";
  std::string recorded;
  const std::vector<Case> cases{
      {"a verdict",
       {},
       [](auto& s, auto& b) { s.set(b + "/verdict", std::string("EVIL WORDS")); },
       "the value of BOARD/verdict in the store " + forged},
      {"a beat",
       {},
       [](auto& s, auto& b) { s.set(b + "/beat/1", std::string("9 failed 0 0 EVIL WORDS")); },
       "the value of BOARD/beat/1 in the store " + forged},
      {"rank 0's beat",
       {},
       [](auto& s, auto& b) { s.set(b + "/beat/0", std::string("9 failed 0 0 EVIL WORDS")); },
       "the value of BOARD/beat/0 in the store " + forged},
      {"a moved beat",
       {},
       [](auto& s, auto& b) { s.set(b + "/beat/1", s.get(b + "/beat/0")); },
       "the value of BOARD/beat/1 in the store " + forged},
      {"a recorded beat",
       [&](auto& s, auto& b) {
         recorded = s.get_to_str(b + "/beat/1");
         std::this_thread::sleep_for(std::chrono::seconds(1));
       },
       [&](auto& s, auto& b) { s.set(b + "/beat/1", recorded); },
       "the value of BOARD/beat/1 in the store was replaced by an older one"},
      {"a deleted beat",
       {},
       [](auto& s, auto& b) { s.deleteKey(b + "/beat/1"); },
       "the value of BOARD/beat/1 in the store was deleted"},
  };
  std::vector<std::future<test::Outcome>> jobs;  // they mostly wait
  for (const auto& c : cases) jobs.push_back(std::async(std::launch::async, intrude, c));
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto& c = cases[i];
    const auto seen = jobs[i].get();
    SCOPED_TRACE(c.name + "\n" + seen.output);
    EXPECT_NE(seen.output.find(c.expected), std::string::npos);
    const auto statuses = seen.output.substr(seen.output.find("statuses "));
    EXPECT_TRUE(statuses == "statuses 1 75\n" || statuses == "statuses 75 1\n" || statuses == "statuses 1 1\n");
    EXPECT_EQ(seen.output.find("EVIL"), std::string::npos);
    EXPECT_LT(seen.took.count(), 30);
  }
}

TEST(Intruder, ARankWithAnotherSecretIsNamedByBoth) {
  const auto seen = test::run(
      {"sh", "-c", two_ranks(test::new_port(), test::shade_binary() + " comm", "SHADE_SECRET=" + Secret::new_digits())},
      {.environment = {{"SHADE_SECRET", Secret::new_digits()}}, .limit = Seconds(40)});
  EXPECT_NE(seen.output.find("rank 1 has another job secret than rank 0"), std::string::npos) << seen.output;
  EXPECT_NE(seen.output.find("rank 0 has another job secret than rank 1"), std::string::npos) << seen.output;
  EXPECT_NE(seen.output.find("statuses 1 1"), std::string::npos) << seen.output;
}

TEST(Intruder, ARankWithAnotherSecretIsNamedUnderTheLauncher) {
  const auto seen = test::run(
      {test::shade_binary(), "launch", "-n", "3", "--", "sh", "-c",
       text("test $RANK = 1 && export SHADE_SECRET=", Secret::new_digits(), "; exec ", test::shade_binary(), " comm")},
      {.limit = Seconds(40)});
  EXPECT_EQ(seen.status, 1) << seen.output;
  const auto headline = seen.output.substr(seen.output.find("shade: rank"));
  EXPECT_TRUE(headline.find("rank 1 has another job secret than rank ") != std::string::npos ||
              headline.find("ranks 0, 2 have another job secret than rank 1") != std::string::npos)
      << seen.output;
}

TEST(Intruder, RanksOnSeveralHostsWithoutASecretAreRefused) {
  const auto seen = test::run({test::shade_binary(), "comm"},
                              {.environment = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "1"}}});
  EXPECT_EQ(seen.status, 2) << seen.output;
  EXPECT_NE(seen.output.find("ranks on several hosts (world stated by torchrun) need a job secret"), std::string::npos)
      << seen.output;
}

// A secret of the launcher's own job is not passed on, and each start has another.
TEST(Intruder, TheLauncherMakesASecretForEveryStart) {
  const auto seen = test::run({test::shade_binary(), "launch", "-n", "2", "--no-prefix", "--max-restarts", "1", "--",
                               "sh", "-c", "echo secret $SHADE_SECRET file $SHADE_SECRET_FILE; exit 3"},
                              {.environment = {{"SHADE_SECRET", "given"}, {"SHADE_SECRET_FILE", "given"}}});
  std::set<std::string> secrets;
  for (const auto& line : split(seen.output, '\n')) {
    if (!line.starts_with("secret ")) continue;
    EXPECT_EQ(line.substr(std::min<size_t>(71, line.size())), " file");
    secrets.insert(line.substr(7, 64));
  }
  EXPECT_EQ(secrets.size(), 2u) << seen.output;
  for (const auto& secret : secrets) EXPECT_EQ(secret.find_first_not_of("0123456789abcdef"), std::string::npos);
}

}  // namespace
}  // namespace shade::comm
