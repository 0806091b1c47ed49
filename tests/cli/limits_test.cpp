// What the machine doesn't have is said before it is asked for: memory for the model states, cores for the threads.
// What a shell's limits or a full disk refuse is one message with its remedy, and never a signal.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "shade/base/json.h"
#include "tests/io/scratch.h"
#include "tests/support/process.h"

namespace shade::cli {
namespace {

using Words = std::vector<std::string>;

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// One message, whatever the number of ranks, and no wait for it: nothing was built.
void expect_refused(const test::Outcome& seen, const std::string& words) {
  EXPECT_EQ(seen.status, 2) << seen.output;
  EXPECT_EQ(count(seen.output, words), 1u) << words << "\n" << seen.output;
  EXPECT_EQ(count(seen.output, "failed first"), 0u) << seen.output;
  EXPECT_LT(seen.took.count(), 4) << "seconds: " << seen.output;
  std::printf("%.2f s: %s", seen.took.count(), seen.output.c_str());
}

TEST(Limits, ModelStatesBeyondTheMemoryAreRefusedAtOnce) {
  const io::Scratch scratch;
  const auto output = (scratch.path() / "run").string();
  const Words large{"--model", "linear", "--hidden-dim", "100000", "--num-layers", "100"};
  const auto with = [&](Words words, const Words& more) {
    words.insert(words.end(), large.begin(), large.end());
    words.insert(words.end(), more.begin(), more.end());
    return test::run_shade(words);
  };
  const std::string need =
      "the model states need 14.6 TiB on this host (weights 3.64 TiB, gradients 3.64 TiB, "
      "optimizer 7.28 TiB), and ";
  const Words run{"--from-scratch", "--synthetic", "--output", output};
  expect_refused(with({"train"}, run), need);
  expect_refused(with({"train", "--ranks", "2", "--shard", "zero3"}, run), need);
  expect_refused(with({"train", "--ranks", "2", "--shard", "ddp"}, run), "the model states need 29.1 TiB");
  EXPECT_FALSE(std::filesystem::exists(output)) << "nothing was begun";
  expect_refused(with({"bench", "--ranks", "2", "--shard", "zero3"}, {}), need);
  expect_refused(with({"bench", "--work", "forward_backward", "--dtype", "bf16"}, {}),
                 "the model states need 3.64 TiB");
  expect_refused(with({"audit"}, {}), "the model states need 7.28 TiB");
  expect_refused(with({"verify"}, {}), "the model states need 14.6 TiB");  // its reference is in fp64
}

TEST(Limits, AMemoryLimitIsKeptByTheStates) {
  const io::Scratch scratch;
  const Words small{"train",
                    "--model",
                    "linear",
                    "--from-scratch",
                    "--synthetic",
                    "--hidden-dim",
                    "256",
                    "--steps",
                    "1",
                    "--batch-size",
                    "2",
                    "--micro-batch",
                    "1",
                    "--threads",
                    "1",
                    "--peak-gflops",
                    "100",
                    "--output",
                    (scratch.path() / "run").string()};
  const auto with = [&](const Words& more) {
    auto words = small;
    words.insert(words.end(), more.begin(), more.end());
    return test::run_shade(words);
  };
  expect_refused(with({"--memory-limit", "8MB"}), "the model states need 8.03 MiB on this host");
  const auto fits = with({"--memory-limit", "9MB"});
  EXPECT_EQ(fits.status, 0) << fits.output;
}

// It says so once and runs: the limit of a user is one for the choice of a micro-batch, and a plan may be wrong.
TEST(Limits, APlanBeyondTheMemoryWarnsOnce) {
  const auto train = [](const Words& more) {
    const io::Scratch scratch;
    Words words{"train",
                "--model",
                "linear",
                "--from-scratch",
                "--synthetic",
                "--hidden-dim",
                "256",
                "--steps",
                "1",
                "--batch-size",
                "4096",
                "--micro-batch",
                "2048",
                "--threads",
                "1",
                "--peak-gflops",
                "100",
                "--output",
                (scratch.path() / "run").string()};
    words.insert(words.end(), more.begin(), more.end());
    const auto seen = test::run_shade(words);
    EXPECT_EQ(seen.status, 0) << seen.output;
    return seen.output;
  };
  const std::string warning = "memory will probably not suffice: by the plan a rank needs ";
  const auto one = train({"--memory-limit", "9MB"});
  EXPECT_EQ(count(one, warning), 1u) << one;
  EXPECT_EQ(count(one, "largest part: "), 1u) << one;
  const auto two = train({"--memory-limit", "9MB", "--ranks", "2", "--shard", "ddp"});
  EXPECT_EQ(count(two, warning), 1u) << two;
  EXPECT_EQ(count(train({"--memory-limit", "4GB"}), warning), 0u);
  EXPECT_EQ(count(train({"--memory-limit", "9MB", "--log-level", "error"}), warning), 0u);
}

TEST(Limits, AHostileConfigurationIsAnsweredAtOnce) {
  const io::Scratch scratch;
  Json config{{"model_type", "llama"},     {"hidden_size", 4096},        {"num_hidden_layers", 100'000},
              {"num_attention_heads", 32}, {"intermediate_size", 14336}, {"vocab_size", 128256}};
  const auto train = [&] {
    scratch.write("config.json", config.dump());
    return test::run_shade({"train", "--model", scratch.path().string(), "--from-scratch", "--synthetic", "--ranks",
                            "2", "--shard", "zero3", "--output", (scratch.path().string() + "_run")});
  };
  expect_refused(train(), "the model states need ");
  config["num_hidden_layers"] = 1'000'000'000;
  expect_refused(train(), "config.json: num_hidden_layers is 1000000000; expected a whole number from 1 to 100000");
  config["num_hidden_layers"] = 1.5;
  expect_refused(train(), "config.json: num_hidden_layers is 1.5; expected a whole number");
  config["num_hidden_layers"] = 1;
  config["rms_norm_eps"] = -1;
  expect_refused(train(), "config.json: rms_norm_eps is -1; expected a finite number above 0");
}

TEST(Limits, MoreThreadsThanCoresWarnOnce) {
  const auto cores = std::thread::hardware_concurrency();
  const Words bench{"bench", "--model", "linear-nano", "--num-iter", "1", "--warmup-iter", "0", "--batch-size", "2"};
  const auto with = [&](const Words& more) {
    auto words = bench;
    words.insert(words.end(), more.begin(), more.end());
    const auto seen = test::run_shade(words);
    EXPECT_EQ(seen.status, 0) << seen.output;
    return seen.output;
  };
  const auto some = std::to_string(cores + 1);
  EXPECT_EQ(count(with({"--threads", some}), text("--threads ", some, ": ", some, " threads share ", cores)), 1u);
  const auto two = with({"--threads", some, "--ranks", "2", "--shard", "ddp"});
  EXPECT_EQ(count(two, " threads share "), 1u) << two;
  EXPECT_NE(two.find(text("--threads ", some, " on 2 ranks of a host: ", 2 * (cores + 1), " threads share ", cores)),
            std::string::npos)
      << two;
  EXPECT_EQ(count(with({"--threads", std::to_string(cores)}), " threads share "), 0u);
  EXPECT_EQ(count(with({}), " threads share "), 0u);
  const auto seen = test::run_shade({"bench", "--threads", "5000"});
  EXPECT_EQ(seen.status, 2) << seen.output;
}

// Runs a shell's line in the folder, as a user whom limits bind if we are root: root may start any number of processes.
test::Outcome in_shell_of_user(const std::filesystem::path& folder, const std::string& line) {
  std::filesystem::permissions(folder, std::filesystem::perms::all);
  Words words{"/bin/bash", "-c", text("cd '", folder.string(), "' && ", line)};
  if (::geteuid() == 0)
    words.insert(words.begin(), {"setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups", "--"});
  return test::run(words, {.environment = {{"TMPDIR", folder.string()}, {"HOME", folder.string()}}});
}

std::string small_run() {
  return test::shade_binary() +
         " train --synthetic --records 32 --model linear-nano --from-scratch --hidden-dim 8 --steps 2 --batch-size 4 "
         "--peak-gflops 100 --output run ";
}

bool can_be_a_user() {
  if (::geteuid() != 0) return false;  // processes of this user that others started count too
  const io::Scratch scratch;
  return in_shell_of_user(scratch.path(), test::shade_binary() + " --version").status == 0;
}

TEST(Limits, ProcessesAreNamedAndNeverEndInASignal) {
  if (!can_be_a_user()) GTEST_SKIP() << "needs root, setpriv and a program that others may read";
  int refused = 0;
  for (const int limit : {2, 4, 6, 8, 10, 13, 16}) {
    const io::Scratch scratch;
    const auto seen =
        in_shell_of_user(scratch.path(), text("ulimit -u ", limit, " && exec ", small_run(), "--ranks 2"));
    SCOPED_TRACE(text("ulimit -u ", limit, ": ", seen.output));
    EXPECT_TRUE(seen.status == 0 || seen.status == 1) << seen.status;
    for (const auto* words : {"terminate", "internal", "Resource temporarily"})
      EXPECT_EQ(count(seen.output, words), 0u) << words;
    if (seen.status == 0) continue;
    ++refused;
    EXPECT_NE(seen.output.find("the limit of processes and threads"), std::string::npos);
    EXPECT_NE(seen.output.find(text("ulimit -u, now ", limit)), std::string::npos);
  }
  EXPECT_GE(refused, 4);
}

TEST(Limits, FilesOutputAndTheWorkingFolderAreNamed) {
  const auto shade = test::shade_binary();
  const auto account = shade + " account --sigma 1 --sample-rate 0.01 --steps 10 --delta 1e-5";
  struct Row {
    std::string line, found, remedy;
  };
  for (const auto& [line, found, remedy] : {
           Row{"ulimit -f 1 && exec " + small_run(), "File too large", "ulimit -f"},
           Row{"ulimit -n 12 && exec " + small_run() + "--ranks 2", "open files", "ulimit -Hn"},
           Row{"exec " + account + " > /dev/full", "standard output could not be written: No space left on device",
               "free some space"},
           Row{"exec " + shade + " completion bash > /dev/full", "could not be written: No space left",
               "free some space"},
           Row{"mkdir gone && cd gone && rmdir ../gone && exec " + small_run(), "the working folder was deleted",
               "change to another one (cd)"},
       }) {
    const io::Scratch scratch;
    const auto seen = in_shell_of_user(scratch.path(), line);
    SCOPED_TRACE(text(line, "\n", seen.output));
    EXPECT_EQ(seen.status, 1);
    EXPECT_GE(count(seen.output, found), 1u) << found;
    EXPECT_GE(count(seen.output, remedy), 1u) << remedy;
    EXPECT_EQ(count(seen.output, "terminate") + count(seen.output, "FATAL"), 0u);
  }
  const io::Scratch scratch;
  EXPECT_EQ(in_shell_of_user(scratch.path(), "set -o pipefail; " + account + " | true").status % 141, 0)
      << "a reader that has enough is no error";
}

TEST(Limits, RanksBeyondTheCoresAreTheAdvice) {
  const auto cores = std::thread::hardware_concurrency();
  const auto ranks = std::to_string(cores + 1);
  const auto seen = test::run_shade({"bench", "--model", "linear-nano", "--num-iter", "1", "--warmup-iter", "0",
                                     "--batch-size", ranks, "--threads", "1", "--ranks", ranks, "--shard", "ddp"});
  EXPECT_EQ(seen.status, 0) << seen.output;
  EXPECT_EQ(count(seen.output, text("choose at most ", cores, cores == 1 ? " rank" : " ranks", " of a host")), 1u)
      << seen.output;
}

}  // namespace
}  // namespace shade::cli
