// A dead or stopped rank ends the job: {SIGKILL, SIGSTOP, exit, exception} x {rendezvous, every collective} x W {2, 4}.
// Every process is gone within 10 s of the fault, the exit status says so, and the message names the rank.
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <map>

#include "shade/base/strings.h"
#include "shade/comm/collective.h"
#include "tests/support/process.h"

namespace shade::comm {
namespace {

struct Fate {
  std::string how;
  std::string where;
  int ranks;

  int victim() const { return ranks == 2 ? 0 : 2; }  // rank 0 keeps watch: it must be watched too
  std::string name() const { return text(how, "_in_", where, "_W", ranks); }
};

struct Seen {
  test::Outcome outcome;
  Seconds after_fault{0};
  std::vector<int> survivors;
};

Seen suffer(const Fate& fate) {
  const auto victim =
      (std::filesystem::path(test::shade_binary()).parent_path().parent_path() / "tests/rank_victim").string();
  const auto mark = text(fate.name(), "-", ::getpid());
  Seen seen;
  seen.outcome = test::run({test::shade_binary(), "launch", "-n", std::to_string(fate.ranks), "--", victim,
                            std::to_string(fate.victim()), fate.how, fate.where},
                           {.environment = {{"SHADE_TEST_CASE", mark}}, .limit = Seconds(40)});
  const auto now = Clock::now().time_since_epoch();
  seen.survivors = test::processes_with("SHADE_TEST_CASE", mark);
  const auto at = seen.outcome.output.find("FAULT ");
  if (at != std::string::npos) {
    const auto end = seen.outcome.output.find('\n', at);
    const auto fault = parse_integer(seen.outcome.output.substr(at + 6, end - at - 6));
    if (fault) seen.after_fault = now - std::chrono::nanoseconds(*fault);
  }
  return seen;
}

void expect_clean_end(const Fate& fate, const Seen& seen) {
  const auto& output = seen.outcome.output;
  SCOPED_TRACE(fate.name() + "\n" + output);
  EXPECT_NE(seen.outcome.status, 0);
  EXPECT_GT(seen.after_fault.count(), 0) << "the fault never happened";
  EXPECT_LT(seen.after_fault.count(), 10);
  EXPECT_TRUE(seen.survivors.empty()) << "processes left: " << ranges(seen.survivors);
  EXPECT_NE(output.find(text("rank ", fate.victim(), " failed first: ")), std::string::npos);
  const std::map<std::string, std::string> reasons{{"kill", "killed by signal 9 (SIGKILL)"},
                                                   {"stop", "stopped for"},
                                                   {"exit", "exit status 1"},
                                                   {"throw", "the victim's own words"}};
  EXPECT_NE(output.find(reasons.at(fate.how)), std::string::npos);
  EXPECT_NE(output.find("where the ranks were: "), std::string::npos);
  if (fate.where == "rendezvous") {
    EXPECT_NE(output.find("never joined"), std::string::npos);
  } else {  // the label of the operation under way, or of the next one if it just got through
    EXPECT_TRUE(output.find("unit 7") != std::string::npos || output.find("unit 8") != std::string::npos);
  }
}

TEST(Failure, EveryFateEveryPlace) {
  std::vector<Fate> fates;
  for (const int ranks : {2, 4})
    for (const char* how : {"stop", "kill", "exit", "throw"}) {
      fates.push_back({how, "rendezvous", ranks});
      for (const auto& where : all_names<Collective>()) fates.push_back({how, where, ranks});
    }
  ASSERT_EQ(fates.size(), 56u);
  // Jobs mostly wait: a few at a time.
  double slowest = 0;
  constexpr size_t kAtOnce = 4;
  for (size_t begin = 0; begin < fates.size(); begin += kAtOnce) {
    std::vector<std::future<Seen>> running;
    for (size_t i = begin; i < std::min(begin + kAtOnce, fates.size()); ++i)
      running.push_back(std::async(std::launch::async, suffer, fates[i]));
    for (size_t i = 0; i < running.size(); ++i) {
      const auto seen = running[i].get();
      expect_clean_end(fates[begin + i], seen);
      slowest = std::max(slowest, seen.after_fault.count());
    }
  }
  std::printf("%zu cases; the slowest was gone %.1f s after the fault\n", fates.size(), slowest);
}

TEST(Failure, WithoutAFaultNothingIsReported) {
  const auto seen = suffer({"none", "all_reduce", 2});
  EXPECT_EQ(seen.outcome.status, 0) << seen.outcome.output;
}

}  // namespace
}  // namespace shade::comm
