// SIGTERM and Ctrl-C are answered within two seconds, wherever a program is. Where nothing would be lost the process
// ends at once; steps are finished and saved. The time is printed; a loaded machine has four seconds.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "shade/base/json.h"
#include "tests/io/scratch.h"
#include "tests/support/process.h"

namespace shade::cli {
namespace {

using test::Running;
using Words = std::vector<std::string>;

constexpr double kAnswer_s = 4;

class Signals : public testing::Test {
 protected:
  std::string place(const std::string& name) const { return (scratch_.path() / name).string(); }

  Words train(const Words& more) const {
    Words words{test::shade_binary(), "train", "--from-scratch", "--micro-batch", "1", "--threads", "1",
                "--peak-gflops",      "100",   "--output",       place("run")};
    if (std::find(more.begin(), more.end(), "linear") == more.end()) words.insert(words.end(), {"--seq-length", "16"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // A step of minutes.
  Words long_steps(const Words& more) const {
    Words words{"--model", "llama-nano",   "--synthetic", "--records", "100000", "--batch-size",
                "20000",   "--seq-length", "128",         "--steps",   "2"};
    words.insert(words.end(), more.begin(), more.end());
    return train(words);
  }
  test::RunOptions marked() const { return {.environment = {{"SHADE_TEST_CASE", mark()}}, .limit = Seconds(40)}; }
  // A rank of two that somebody else has started.
  test::RunOptions of_two(int rank) const {
    auto options = marked();
    for (const char* key : {"RANK", "LOCAL_RANK"}) options.environment[key] = std::to_string(rank);
    for (const char* key : {"WORLD_SIZE", "LOCAL_WORLD_SIZE"}) options.environment[key] = "2";
    options.environment["MASTER_ADDR"] = "127.0.0.1";
    options.environment["MASTER_PORT"] = std::to_string(port_);
    return options;
  }
  std::string mark() const { return scratch_.path().string(); }

  void expect_all_gone() const {
    for (int i = 0; i < 20 && !test::processes_with("SHADE_TEST_CASE", mark()).empty(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_TRUE(test::processes_with("SHADE_TEST_CASE", mark()).empty());
  }

  // Ended by the signal, soon, with at most one line about it.
  void expect_ends(Running& job, int signal, const std::string& where) const {
    job.signal(signal);
    const auto seen = job.finish();
    EXPECT_EQ(seen.status, 128 + signal) << where << ": " << seen.output;
    EXPECT_LT(seen.took.count(), kAnswer_s) << where << ": " << seen.output;
    for (const char* noise : {"failed first", "no sign of life", "lost", "terminate called"})
      EXPECT_EQ(seen.output.find(noise), std::string::npos) << where << ": " << seen.output;
    std::printf("%s: ended %.2f s after the signal\n", where.c_str(), seen.took.count());
    expect_all_gone();
  }

  // A data folder that takes long to read: texts for a tokenizer.
  std::string texts() const {
    std::filesystem::create_directories(place("texts"));
    std::ofstream out(place("texts/a.jsonl"));
    std::string words;
    for (int i = 0; i < 400; ++i) words += text("word", i * 7919 % 1000, i % 9 == 0 ? ", " : " ");
    const auto line = Json{{"text", words}}.dump() + "\n";
    for (int i = 0; i < 40'000; ++i) out << line;
    return place("texts");
  }

  io::Scratch scratch_;
  const int port_ = test::new_port();
};

void pause() { std::this_thread::sleep_for(std::chrono::seconds(1)); }

TEST_F(Signals, WhileDataIsRead) {
  const auto folder = texts();
  const auto tokenizer = test::source_root() + "/tests/golden/tokenizer_llama3";
  for (const int signal : {SIGTERM, SIGINT})
    for (const char* ranks : {"1", "2"}) {
      Running job(train({"--model", "llama-nano", "--vocab-size", "1440", "--data-folder", folder, "--tokenizer",
                         tokenizer, "--cache-folder", place("cache"), "--batch-size", "4", "--steps", "1", "--ranks",
                         ranks, "--shard", "ddp"}),
                  marked());
      pause();
      ASSERT_FALSE(job.gone()) << job.output();
      expect_ends(job, signal, text("reading, ", ranks, " ranks"));
      EXPECT_EQ(job.output().find("step "), std::string::npos) << "it had come to the steps: " << job.output();
    }
}

TEST_F(Signals, WhileAModelIsBuilt) {
  const Words large{"--model",      "linear", "--hidden-dim", "16", "--num-layers", "100000", "--synthetic",
                    "--batch-size", "1",      "--steps",      "1"};
  for (const char* ranks : {"1", "2"}) {
    auto words = train(large);
    words.insert(words.end(), {"--ranks", ranks, "--shard", "ddp"});
    Running job(words, marked());
    pause();
    ASSERT_FALSE(job.gone()) << job.output();
    expect_ends(job, SIGTERM, text("building, ", ranks, " ranks"));
  }
}

// It has no default actions: without a handler it would not hear the signal.
TEST_F(Signals, OfTheFirstProcessOfAContainer) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs a process namespace of its own";
  Words words{"unshare", "--pid", "--fork"};
  const auto command = train({"--model", "linear", "--hidden-dim", "16", "--num-layers", "100000", "--synthetic",
                              "--batch-size", "1", "--steps", "1"});
  words.insert(words.end(), command.begin(), command.end());
  Running job(words, marked());
  pause();
  const auto found = test::processes_with("SHADE_TEST_CASE", mark());
  ASSERT_EQ(found.size(), 2U) << job.output();
  ASSERT_EQ(::kill(*std::max_element(found.begin(), found.end()), SIGTERM), 0);
  const auto seen = job.finish();
  EXPECT_EQ(seen.status, 128 + SIGTERM) << seen.output;
  expect_all_gone();
}

// What was done is saved, the evaluation is left out, and made up for when the run goes on.
TEST_F(Signals, InALongEvaluation) {
  for (const char* ranks : {"1", "2"}) {
    const auto run = place(text("run", ranks));
    const auto words = [&](const char* held_out) {
      return train({"--model", "llama-nano", "--synthetic", "--records", "500000", "--eval-records", held_out,
                    "--eval-every", "1", "--batch-size", "2", "--steps", "1", "--output", run, "--ranks", ranks,
                    "--shard", "ddp"});
    };
    Running job(words("200000"), marked());
    ASSERT_TRUE(job.says("step 1/1")) << job.output();
    pause();
    job.signal(SIGTERM);
    const auto seen = job.finish();
    EXPECT_EQ(seen.status, 0) << seen.output;
    EXPECT_LT(seen.took.count(), kAnswer_s) << seen.output;
    std::printf("evaluation, %s ranks: ended %.2f s after the signal\n", ranks, seen.took.count());
    EXPECT_NE(seen.output.find("the evaluation after step 1 is postponed until the run continues"), std::string::npos)
        << seen.output;
    EXPECT_NE(seen.output.find("asked to stop after step 1; saved"), std::string::npos) << seen.output;
    const auto again = test::run(words("4"));
    EXPECT_EQ(again.status, 0) << again.output;
    EXPECT_NE(again.output.find("evaluation after step 1: loss"), std::string::npos) << again.output;
    EXPECT_NE(again.output.find("finished after step 1"), std::string::npos) << again.output;
    const auto third = test::run(words("4"));
    EXPECT_EQ(third.output.find("evaluation after step 1"), std::string::npos) << "once is enough: " << third.output;
    expect_all_gone();
  }
}

TEST_F(Signals, ALongStepSaysSoAndASecondSignalEndsIt) {
  for (const Words& start : {Words{}, {"--ranks", "2", "--shard", "zero3"}}) {
    Running job(long_steps(start), marked());
    ASSERT_TRUE(job.says("run      ")) << job.output();
    pause();
    const auto begin = Clock::now();
    job.signal(SIGTERM);
    const std::string words = "asked to stop: step 1 will be finished and saved; a second signal ends at once\n";
    EXPECT_TRUE(job.says(words, Seconds(kAnswer_s))) << job.output();
    std::printf("long step: answered after %.2f s\n", Seconds(Clock::now() - begin).count());
    pause();
    EXPECT_FALSE(job.gone()) << job.output();
    expect_ends(job, SIGTERM, text("long step, second signal", start.empty() ? "" : ", 2 ranks"));
    const auto& said = job.output();
    EXPECT_EQ(said.find(words), said.rfind(words)) << "one rank speaks: " << said;
  }
}

TEST_F(Signals, UnderLaunchAndWithRanksOfOneProcessGroup) {
  Words words{test::shade_binary(), "launch", "-n", "2", "--"};
  const auto command = long_steps({"--shard", "zero3"});
  words.insert(words.end(), command.begin(), command.end());
  Running job(words, marked());
  ASSERT_TRUE(job.says("run      ")) << job.output();
  pause();
  job.signal(SIGINT);
  EXPECT_TRUE(job.says("asked to stop: step 1 ", Seconds(kAnswer_s))) << job.output();
  pause();
  expect_ends(job, SIGINT, "shade launch, second signal");
}

// Steps that are short are finished and saved at the first signal, and the run goes on from there.
TEST_F(Signals, AStepIsFinishedAndSaved) {
  for (const Words& start : {Words{}, {"--ranks", "2", "--shard", "zero3"}}) {
    auto words = train({"--model", "llama-nano", "--synthetic", "--batch-size", "4", "--steps", "1000000",
                        "--log-every", "1", "--dp", "flash_bookkeeping", "--sigma", "1", "--delta", "1e-3"});
    words.insert(words.end(), start.begin(), start.end());
    Running job(words, marked());
    ASSERT_TRUE(job.says("step 3/")) << job.output();
    job.signal(SIGTERM);
    const auto seen = job.finish();
    EXPECT_EQ(seen.status, 0) << seen.output;
    EXPECT_LT(seen.took.count(), kAnswer_s) << seen.output;
    EXPECT_NE(seen.output.find("saved, and the same command continues from here"), std::string::npos) << seen.output;
    std::printf("short steps: ended %.2f s after the signal\n", seen.took.count());
    expect_all_gone();
    std::filesystem::remove_all(place("run"));
  }
}

// A signal in a step ends the run after that step, not after the next one.
TEST_F(Signals, TheStepThatRunsIsTheLast) {
  Running job(long_steps({"--batch-size", "600", "--steps", "100"}), marked());
  ASSERT_TRUE(job.says("run      ")) << job.output();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  job.signal(SIGTERM);
  const auto seen = job.finish();
  EXPECT_EQ(seen.status, 0) << seen.output;
  EXPECT_NE(seen.output.find("asked to stop after step 1; saved"), std::string::npos) << seen.output;
}

TEST_F(Signals, WhileWaitingForPeers) {
  for (const int rank : {0, 1}) {
    Running job(long_steps({"--shard", "ddp"}), of_two(rank));
    pause();
    ASSERT_FALSE(job.gone()) << job.output();
    expect_ends(job, SIGTERM, text("rendezvous, rank ", rank));
  }
}

// As under torchrun or Slurm, where every rank gets the signals.
TEST_F(Signals, RanksWithoutALauncher) {
  Running first(long_steps({"--shard", "zero3"}), of_two(0)), second(long_steps({"--shard", "zero3"}), of_two(1));
  ASSERT_TRUE(first.says("run      ")) << first.output();
  pause();
  for (const auto* rank : {&first, &second}) rank->signal(SIGTERM);
  EXPECT_TRUE(first.says("asked to stop: step 1 ", Seconds(kAnswer_s))) << first.output();
  pause();
  EXPECT_FALSE(first.gone() || second.gone()) << first.output() << second.output();
  for (const auto* rank : {&first, &second}) rank->signal(SIGTERM);
  for (auto* rank : {&first, &second}) {
    const auto seen = rank->finish();
    EXPECT_EQ(seen.status, 128 + SIGTERM) << seen.output;
    EXPECT_LT(seen.took.count(), kAnswer_s) << seen.output;
    if (rank == &second) EXPECT_EQ(seen.output, "") << "rank 0 speaks";
  }
  expect_all_gone();
}

TEST_F(Signals, OfTheOtherVerbs) {
  const auto tokenizer = test::source_root() + "/tests/golden/tokenizer_llama3";
  const std::vector<Words> verbs{
      {"bench", "--model", "llama-nano", "--num-iter", "1000000", "--threads", "1"},
      {"bench", "--model", "llama-nano", "--num-iter", "1000000", "--ranks", "2", "--shard", "zero3"},
      {"bench", "--model", "llama-nano", "--num-iter", "1000000", "--work", "forward_backward"},
      {"verify", "--ranks", "2", "--all"},
      {"audit", "--runs", "100000000"},
      {"calibrate", "--time", "100000", "--threads", "1"},
      {"comm", "--ranks", "2", "--num-iter", "1000000"},
      {"data", "--data-folder", texts(), "--tokenizer", tokenizer, "--cache-folder", place("cache")},
      {"compare", "--model", "llama-nano", "--num-iter", "1000000", "--ranks", "2", "--shard", "zero2,zero3",
       "--output-dir", place("matrix")},
      {"scan", "--model", "llama-nano", "--seq", "64,128", "--num-iter", "1000000", "--output-dir", place("scan")},
  };
  for (const auto& verb : verbs) {
    Words words{test::shade_binary()};
    words.insert(words.end(), verb.begin(), verb.end());
    Running job(words, marked());
    pause();
    ASSERT_FALSE(job.gone()) << verb[0] << ": " << job.output();
    expect_ends(job, SIGTERM, verb[0]);
  }
}

// A folder of many results: reading and drawing them takes longer than a second.
TEST_F(Signals, OfAReport) {
  const auto result = place("one.json");
  const auto bench =
      test::run({test::shade_binary(), "bench", "--model", "linear-nano", "--num-iter", "1", "--json", result});
  ASSERT_EQ(bench.status, 0) << bench.output;
  std::filesystem::create_directories(place("results"));
  for (int i = 0; i < 4000; ++i) std::filesystem::copy_file(result, place(text("results/", i, ".json")));
  Running job({test::shade_binary(), "report", place("results")}, marked());
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  ASSERT_FALSE(job.gone()) << job.output();
  expect_ends(job, SIGTERM, "report");
}

}  // namespace
}  // namespace shade::cli
