// What the program writes, and who may read it.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <set>

#include "shade/base/json.h"
#include "shade/base/strings.h"
#include "tests/io/scratch.h"
#include "tests/support/process.h"

namespace shade::cli {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// `before` is shell, e.g. a umask; standard error goes to the file err. `under` runs the shell.
test::Outcome shade(const io::Scratch& here, Words words, const std::string& before = ":", const Words& under = {}) {
  words.insert(words.begin(), {"/bin/sh", "-c", text("cd ", here.path(), " && ", before, " && exec \"$@\" 2>err"), "sh",
                               test::shade_binary()});
  words.insert(words.begin(), under.begin(), under.end());
  return test::run(words, {.limit = Seconds(200)});
}

const Words kAccount{"account", "--sigma", "1.5", "--rate", "0.04", "--steps", "100"};

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const Words kTrain = split(
    "train --model llama-nano --from-scratch --synthetic --train.records 64 --batch-size 4 --micro-batch 4 "
    "--seq-length 16 --steps 2 --threads 1 --peak-gflops 100 --output run",
    ' ');

TEST(Files, OnlyTheJsonOfEveryVerbIsOnStandardOutput) {
  const io::Scratch here;
  write_json(here.path() / "result.json",
             {{"mode", "m"}, {"model", "m"}, {"avg_time_ms", 1.0}, {"peak_memory_mb", 1.0}});
  const Words tiny{"--model", "linear-nano", "--threads", "1", "--num-iter", "1", "--batch-size", "1"};
  const std::vector<std::pair<Words, std::string>> verbs{
      {kAccount, "epsilon"},
      {{"audit", "--model", "linear-nano", "--runs", "1000", "--batch-size", "2"}, "config"},
      {Words{"bench"} + tiny, "avg_time_ms"},
      {Words{"bench", "--ranks", "2", "--shard", "ddp"} + tiny, "avg_time_ms"},
      {{"calibrate", "--time", "0.5", "--threads", "1"}, "products"},
      {{"comm", "--ranks", "2", "--sizes", "1KiB", "--num-iter", "1"}, "rows"},
      {Words{"compare", "--dp", "none,ghost", "--repeats", "1", "--output-dir", "compared"} + tiny, "rows"},
      {{"data", "--write-sample", "corpus", "--size", "300KB", "--seq", "64"}, "tokens"},
      {{"report", "."}, "rows"},
      {{"scan", "--model", "llama-nano", "--threads", "1", "--num-iter", "1", "--batch-size", "1", "--seq", "8,16,32",
        "--repeats", "1", "--output-dir", "scanned"},
       "bottleneck"},
      {kTrain + Words{"--dp", "none"}, "steps"},
      {{"release", "run", "released", "--without-privacy"}, "statement"},  // of that run
      {{"verify", "--model", "linear-nano", "--dp", "ghost", "--shard", "none"}, "rows"}};
  for (const auto& [words, key] : verbs) {
    const auto seen = shade(here, words + Words{"--json", "-"});
    ASSERT_EQ(seen.status, 0) << words.front() << io::content(here.path() / "err");
    const auto json = Json::parse(seen.output, nullptr, /*allow_exceptions=*/false);
    EXPECT_TRUE(json.is_object() && json.contains(key)) << words.front() << ": " << seen.output;
    EXPECT_NE(io::content(here.path() / "err"), "") << words.front() << " has lost its words";
  }
}

void expect_on_standard_output(const io::Scratch& here, const std::string& name, const std::string& before,
                               const Words& under) {
  const auto seen = shade(here, kAccount + Words{"--json", name}, before, under);
  EXPECT_EQ(Json::parse(seen.output, nullptr, false).value("steps", 0), 100) << seen.output;
  // Redirected into a file, which is continued and not replaced.
  EXPECT_EQ(shade(here, kAccount + Words{"--json", name}, before + " && exec >out && echo before", under).status, 0);
  const auto out = io::content(here.path() / "out");
  ASSERT_TRUE(out.starts_with("before\n")) << out;
  EXPECT_EQ(Json::parse(out.substr(7), nullptr, false).value("steps", 0), 100) << out;
}

TEST(Files, ADashIsStandardOutput) {
  const io::Scratch here;
  expect_on_standard_output(here, "-", ":", {});
  EXPECT_FALSE(fs::exists(here.path() / "-"));
}

TEST(Files, StandardStreamsByTheirNames) {
  const io::Scratch here;
  std::string before = ":";
  Words under;
  if (::geteuid() == 0) {  // a fault would replace /dev/stdout itself: here is another one
    fs::create_directories(here.path() / "dev");
    fs::create_symlink("/proc/self/fd/1", here.path() / "dev/stdout");
    fs::create_symlink("/proc/self/fd/2", here.path() / "dev/stderr");
    before = "mount --bind dev /dev";
    under = {"unshare", "-m"};
    if (test::run({"unshare", "-m", "true"}).status != 0) GTEST_SKIP() << "root without a mount namespace";
  }
  expect_on_standard_output(here, "/dev/stdout", before, under);
  EXPECT_EQ(shade(here, kAccount + Words{"--json", "/dev/stderr"}, before, under).status, 0);
  EXPECT_NE(io::content(here.path() / "err").find("\"epsilon\""), std::string::npos);
}

TEST(Files, FifosAndDevicesStayWhatTheyAre) {
  const io::Scratch here;
  const auto pipe = here.path() / "pipe", full = here.path() / "full";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  fs::create_hard_link(pipe, here.path() / "spare");  // to let the reader go if the pipe was replaced
  auto reader = std::async(std::launch::async, [&] { return io::content(pipe); });
  const auto seen = shade(here, kAccount + Words{"--json", "pipe"});
  EXPECT_EQ(seen.status, 0);
  const bool kept = fs::is_fifo(pipe);
  EXPECT_TRUE(kept);
  if (!kept) std::ofstream(here.path() / "spare") << "{}";
  EXPECT_EQ(Json::parse(reader.get(), nullptr, false)["steps"], 100);
  if (::mknod(full.c_str(), S_IFCHR | 0666, ::makedev(1, 7)) != 0) GTEST_SKIP() << "making devices needs root";
  EXPECT_EQ(shade(here, kAccount + Words{"--json", "full"}).status, 1);
  EXPECT_TRUE(fs::is_character_file(full));
  EXPECT_NE(io::content(here.path() / "err").find("cannot write \"full\": No space left on device"), std::string::npos)
      << io::content(here.path() / "err");
}

// Before the work, and without a trace of it.
TEST(Files, WhatCannotBeWrittenIsSaidBeforeTheWork) {
  const io::Scratch here;
  fs::create_directories(here.path() / "folder");
  fs::create_symlink("absent", here.path() / "link");
  for (const auto& [file, words] : std::vector<std::pair<std::string, std::string>>{
           {"/dev/null/missing/out.json", "Not a directory"},
           {"folder", "a folder; expected the name of a file"},
           {"link", "it is a symbolic link to \"absent\", which doesn't exist"}}) {
    for (const auto& verb : {kAccount, kTrain + Words{"--dp", "none"}, kTrain + Words{"--dp", "none", "--ranks", "2"},
                             Words{"compare", "--dp", "none,ghost", "--output-dir", "compared"}}) {
      EXPECT_EQ(shade(here, verb + Words{"--json", file}).status, 2) << verb.front() << " " << file;
      const auto said = io::content(here.path() / "err");
      EXPECT_NE(said.find(words), std::string::npos) << said;
      EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 2) << "one error, and where help is: " << said;
    }
  }
  for (const char* name : {"missing", "absent", "run", "compared"})
    EXPECT_FALSE(fs::exists(here.path() / name)) << name;
}

// Metrics, events, traces, checkpoints and caches of private runs: 0600 in 0700.
TEST(Files, OfPrivateRunsAreReadByTheirOwnerAlone) {
  const io::Scratch here;
  fs::create_directories(here.path() / "run");
  fs::permissions(here.path() / "run", fs::perms(0755));
  ASSERT_EQ(shade(here, kTrain + Words{"--sigma", "1", "--delta", "1e-5", "--keep-key", "--save-every", "1"}, "umask 0")
                .status,
            0)
      << io::content(here.path() / "err");
  const auto bench = split("bench --model llama-nano --seq-length 16 --num-iter 1 --threads 1 --dp ghost", ' ');
  ASSERT_EQ(shade(here, bench + Words{"--trace", "traces/", "--tensorboard", "events"}, "umask 0").status, 0)
      << io::content(here.path() / "err");
  std::set<std::string> seen;
  for (const auto* folder : {"run", "traces", "events"})
    for (const auto& entry : fs::recursive_directory_iterator(here.path() / folder)) {
      const auto name = entry.path().lexically_relative(here.path()).string();
      if (name.starts_with("run/checkpoints/")) continue;  // in a closed folder
      EXPECT_EQ(entry.status().permissions(), fs::perms(entry.is_directory() ? 0700 : 0600)) << name;
      seen.insert(name.substr(0, name.find('.')));
    }
  EXPECT_EQ(fs::status(here.path() / "run").permissions(), fs::perms(0700)) << "made by hand, and empty";
  for (const char* name : {"run/metrics", "run/events", "run/recipe", "run/key", "run/ledger"})
    EXPECT_TRUE(seen.contains(name)) << name;
  const auto rank = std::any_of(seen.begin(), seen.end(), [](const auto& name) { return name.ends_with("/rank0"); });
  EXPECT_TRUE(rank) << "the trace of the bench";
}

TEST(Files, OfPrivateRunsAreNoLinksAndNobodyElses) {
  const io::Scratch here;
  const auto run = here.path() / "run", target = here.path() / "target";
  const auto words = kTrain + Words{"--sigma", "1", "--delta", "1e-5", "--keep-key"};
  const auto refused = [&](const std::string& why) {
    EXPECT_NE(shade(here, words).status, 0) << why;
    EXPECT_NE(io::content(here.path() / "err").find(why), std::string::npos) << io::content(here.path() / "err");
    fs::remove_all(run);
  };
  const auto mode = [](const fs::path& path) { return fs::status(path).permissions(); };
  here.write("run", "mine");
  fs::permissions(run, fs::perms(0644));
  EXPECT_NE(shade(here, words).status, 0);
  EXPECT_EQ(mode(run), fs::perms(0644)) << "a file is no run directory, and stays as it is";
  fs::remove(run);

  fs::create_directories(run);
  fs::create_directories(target);
  fs::permissions(target, fs::perms(0755));
  fs::create_directory_symlink(target, run / "checkpoints");
  refused("is open to others");
  EXPECT_EQ(mode(target), fs::perms(0755)) << "what a link names is not ours to close";

  fs::create_directories(run);
  here.write("elsewhere", "");
  fs::create_symlink(here.path() / "elsewhere", run / "ledger");
  refused("a symbolic link");

  fs::create_directories(run);
  ASSERT_EQ(::mkfifo((run / "key").c_str(), 0600), 0);
  refused("not a key of 32 bytes");

  ASSERT_EQ(shade(here, words).status, 0) << io::content(here.path() / "err");
  fs::permissions(run / "ledger", fs::perms(0644));
  ASSERT_EQ(shade(here, words + Words{"--steps", "3"}).status, 0) << io::content(here.path() / "err");
  EXPECT_EQ(mode(run / "ledger"), fs::perms(0600));
}

// The profiler inside libtorch removes whatever has the trace's name.
TEST(Files, TracesReplaceRegularFilesOnly) {
  const io::Scratch here;
  const auto bench = split("bench --model llama-nano --seq-length 8 --num-iter 1 --threads 1", ' ');
  const auto target = here.write("target", "old");
  fs::create_symlink("target", here.path() / "link");
  EXPECT_EQ(shade(here, bench + Words{"--trace", "link"}).status, 0) << io::content(here.path() / "err");
  EXPECT_TRUE(fs::is_symlink(here.path() / "link"));
  EXPECT_TRUE(read_json(target).contains("traceEvents"));
  ASSERT_EQ(::mkfifo((here.path() / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(shade(here, bench + Words{"--trace", "pipe"}).status, 2);
  EXPECT_TRUE(fs::is_fifo(here.path() / "pipe"));
  EXPECT_NE(io::content(here.path() / "err").find("expected the name of a regular file"), std::string::npos);
}

// Copies of the records: also without a private method, and in a folder that someone made.
TEST(Files, OfTokenCachesAreReadByTheirOwnerAlone) {
  const io::Scratch here;
  fs::create_directories(here.path() / "cache");
  fs::permissions(here.path() / "cache", fs::perms(0755));
  fs::create_directories(here.path() / "texts");
  here.write("texts/a.txt", "a text");
  ASSERT_EQ(shade(here, {"data", "--data-folder", "texts", "--cache-folder", "cache"}, "umask 0").status, 0)
      << io::content(here.path() / "err");
  for (const auto& entry : fs::recursive_directory_iterator(here.path() / "cache"))
    EXPECT_EQ(entry.status().permissions(), fs::perms(entry.is_directory() ? 0700 : 0600)) << entry.path();
}

// Losses of a private run are not private: also in a file that others could read before.
TEST(Files, WrittenFromPrivateRunsAreReadByTheirOwnerAlone) {
  const io::Scratch here;
  const Words words = kTrain + Words{"--dp", "auto", "--sigma", "1", "--delta", "1e-5", "--json", "out.json"};
  here.write("out.json", "{}");
  fs::permissions(here.path() / "out.json", fs::perms(0644));
  ASSERT_EQ(shade(here, words, "umask 0").status, 0) << io::content(here.path() / "err");
  ASSERT_EQ(shade(here, {"report", "run", "--json", "report.json"}, "umask 0").status, 0)
      << io::content(here.path() / "err");
  for (const char* name : {"run/metrics.jsonl", "out.json", "report.json", "run/report.html"})
    EXPECT_EQ(fs::status(here.path() / name).permissions(), fs::perms(0600)) << name;
  for (const auto& entry : fs::recursive_directory_iterator(here.path() / "run/visualizations"))
    EXPECT_EQ(entry.status().permissions(), fs::perms(entry.is_directory() ? 0700 : 0600)) << entry.path();
}

// Results of bench are shared; losses of a batch of one are of single records.
TEST(Files, ResultsOfPrivateBenchesHaveNoLossesOfRecords) {
  const io::Scratch here;
  fs::create_directories(here.path() / "texts");
  here.write("texts/a.txt", "a text");
  const Words words = split(
      "bench --data-folder texts --vocab-size 264 --threads 1 --num-iter 1 --batch-size 1 --seq 8 --json out.json",
      ' ');
  for (const auto& [method, has] : {std::pair{"none", true}, {"auto", false}}) {
    const auto seen = shade(here, words + Words{"--dp", method});
    ASSERT_EQ(seen.status, 0) << io::content(here.path() / "err");
    const auto json = read_json(here.path() / "out.json");
    for (const char* key : {"loss", "losses"}) EXPECT_EQ(json.contains(key), has) << method << " " << key;
    EXPECT_FALSE(json.contains("not_private"));
    EXPECT_EQ(seen.output.find("\nloss ") != std::string::npos, has) << seen.output;
    EXPECT_EQ(seen.output.find("samples clipped"), std::string::npos) << seen.output;
  }
  ASSERT_EQ(shade(here, split("compare --data-folder texts --vocab-size 264 --threads 1 --num-iter 1 --batch-size 1 "
                              "--seq 8 --dp auto --repeat 1 --output-dir rows",
                              ' '))
                .status,
            0)
      << io::content(here.path() / "err");
  for (const auto& log : fs::directory_iterator(here.path() / "rows/logs"))
    EXPECT_EQ(fs::status(log).permissions(), fs::perms(0600)) << log;
}

TEST(Files, OfOtherRunsFollowTheUmask) {
  const io::Scratch here;
  ASSERT_EQ(shade(here, kTrain + Words{"--dp", "none", "--json", "out.json"}, "umask 027").status, 0)
      << io::content(here.path() / "err");
  for (const char* name : {"run/metrics.jsonl", "run/recipe.toml", "run/environment.json", "out.json"})
    EXPECT_EQ(fs::status(here.path() / name).permissions(), fs::perms(0640)) << name;
  EXPECT_EQ(fs::status(here.path() / "run").permissions(), fs::perms(0750));
}

}  // namespace
}  // namespace shade::cli
