#include "shade/comm/job/launch.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "tests/support/process.h"

namespace shade::comm {
namespace {

using test::run;
using test::shade_binary;

std::vector<std::string> launched(int ranks, const std::string& script) {
  return {shade_binary(), "launch", "-n", std::to_string(ranks), "--", "sh", "-c", script};
}

TEST(Launch, StatesTheWorldAndPrefixesLines) {
  const auto seen =
      run(launched(3, "echo $RANK/$WORLD_SIZE $LOCAL_RANK $MASTER_ADDR $OMP_NUM_THREADS; printf tail >&2"));
  EXPECT_EQ(seen.status, 0);
  for (const char* line : {"[0] 0/3 0 127.0.0.1 1\n", "[2] 2/3 2 127.0.0.1 1\n", "[1] tail\n"})
    EXPECT_NE(seen.output.find(line), std::string::npos) << line << seen.output;
}

TEST(Launch, TheFirstFailureIsNamedWithItsLastWords) {
  const auto seen = run(launched(3, "if [ $RANK = 1 ]; then echo disk full >&2; exit 3; fi; sleep 60"));
  EXPECT_EQ(seen.status, 3);
  EXPECT_NE(seen.output.find("rank 1 failed first: exit status 3: disk full"), std::string::npos) << seen.output;
  EXPECT_LT(seen.took.count(), 10) << "the others were ended";
}

TEST(Launch, AStubbornRankIsKilledAfterTheGrace) {
  const auto seen = run(launched(2, "trap '' TERM; if [ $RANK = 0 ]; then exit 1; fi; while true; do sleep 0.1; done"));
  EXPECT_EQ(seen.status, 1);
  EXPECT_LT(seen.took.count(), 10);
}

// Signals are sent when both ranks have said that they are ready for them: under load that takes a while.
test::Running two_ready_ranks(const std::string& script) {
  return test::Running(launched(2, script), {.limit = Seconds(20)});
}

TEST(Launch, SignalsReachTheRanks) {
  auto job = two_ready_ranks("trap 'echo got it; exit 0' USR1; echo ready; while true; do sleep 0.1; done");
  ASSERT_TRUE(job.says("[0] ready") && job.says("[1] ready")) << job.output();
  job.signal(SIGUSR1);
  const auto seen = job.finish();
  EXPECT_EQ(seen.status, 0) << seen.output;
  EXPECT_NE(seen.output.find("[0] got it"), std::string::npos) << seen.output;
  EXPECT_NE(seen.output.find("[1] got it"), std::string::npos) << seen.output;
}

TEST(Launch, TerminatedItEndsEverything) {
  auto job = two_ready_ranks("echo ready; sleep 60");
  ASSERT_TRUE(job.says("[0] ready") && job.says("[1] ready")) << job.output();
  job.signal(SIGTERM);
  const auto seen = job.finish();
  EXPECT_EQ(seen.status, 128 + 15) << seen.output;
  EXPECT_NE(seen.output.find("ended by SIGTERM"), std::string::npos) << seen.output;
}

// The first request lets ranks finish what they are at; the same one from two sides is one request.
TEST(Launch, ASecondRequestEndsStubbornRanks) {
  auto job = two_ready_ranks("trap '' TERM INT; echo ready; while true; do sleep 0.1; done");
  ASSERT_TRUE(job.says("[0] ready") && job.says("[1] ready")) << job.output();
  job.signal(SIGTERM);
  job.signal(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  EXPECT_FALSE(job.gone()) << "a request may be finished first: " << job.output();
  job.signal(SIGTERM);
  const auto seen = job.finish();
  EXPECT_EQ(seen.status, 128 + 15) << seen.output;
  EXPECT_LT(seen.took.count(), 4) << "seconds";
  std::printf("second signal to the end: %.2f s\n", seen.took.count());
}

TEST(Launch, KilledItTakesTheRanksAlong) {
  const auto mark = text("orphans-", ::getpid());
  run({"sh", "-c", text(shade_binary(), " launch -n 2 -- sleep 60 & pid=$!; sleep 1.5; kill -KILL $pid")},
      {.environment = {{"SHADE_TEST_CASE", mark}}});
  for (int i = 0; i < 50 && !test::processes_with("SHADE_TEST_CASE", mark).empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_TRUE(test::processes_with("SHADE_TEST_CASE", mark).empty());
}

TEST(Launch, StartsAgainAfterAFailureAlsoWithFewerRanks) {
  const std::string script =
      "echo start $TORCHELASTIC_RESTART_COUNT of $WORLD_SIZE; [ $TORCHELASTIC_RESTART_COUNT = 2 ]";
  const auto again = [&](const std::vector<std::string>& options, const std::string& what) {
    std::vector<std::string> command{shade_binary(), "launch", "-n", "3"};
    command.insert(command.end(), options.begin(), options.end());
    command.insert(command.end(), {"--", "sh", "-c", what});
    return run(command);
  };
  const auto same = again({"--max-restarts", "5"}, script);
  EXPECT_EQ(same.status, 0) << same.output;
  EXPECT_NE(same.output.find("[2] start 2 of 3"), std::string::npos) << same.output;
  EXPECT_NE(same.output.find("restart 2 of 5 with 3 ranks"), std::string::npos) << same.output;
  const auto fewer = again({"--max-restarts", "2", "--min-nproc", "2"}, script);
  EXPECT_EQ(fewer.status, 0) << fewer.output;
  EXPECT_NE(fewer.output.find("[1] start 2 of 2"), std::string::npos) << fewer.output;
  EXPECT_EQ(again({"--max-restarts", "1"}, script).status, 1) << "no more than it was told";
  const auto wrong = again({"--max-restarts", "5"}, "exit 2");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_EQ(wrong.output.find("restart"), std::string::npos) << "a wrong option stays wrong: " << wrong.output;
}

TEST(Launch, SaysWhereTheRanksWereAfterARestartToo) {
  const auto victim =
      (std::filesystem::path(shade_binary()).parent_path().parent_path() / "tests/rank_victim").string();
  const auto seen =
      run({shade_binary(), "launch", "-n", "2", "--max-restarts", "1", "--", victim, "1", "exit", "all_reduce"});
  EXPECT_EQ(seen.status, 1);
  const auto restart = seen.output.find("restart 1 of 1");
  ASSERT_NE(restart, std::string::npos) << seen.output;
  EXPECT_NE(seen.output.find("where the ranks were: ", restart), std::string::npos) << seen.output;
}

TEST(Launch, FaultsOfTheCallerAreExplained) {
  EXPECT_NE(run({shade_binary(), "launch", "-n", "2"}).output.find("nothing to launch; expected a command after --"),
            std::string::npos);
  const auto seen = run({shade_binary(), "launch", "-n", "2", "--", "no-such-program"});
  EXPECT_EQ(seen.status, 2);
  EXPECT_NE(seen.output.find("cannot run 'no-such-program': No such file or directory"), std::string::npos)
      << seen.output;
}

TEST(Launch, MoreRanksThanStatedIsAnError) {
  const auto seen = run({shade_binary(), "launch", "-n", "2", "--", shade_binary(), "comm", "--ranks", "4"});
  EXPECT_EQ(seen.status, 2) << seen.output;
  EXPECT_NE(seen.output.find("--ranks 4 was asked for, but torchrun made a world of 2"), std::string::npos)
      << seen.output;
}

}  // namespace
}  // namespace shade::comm
