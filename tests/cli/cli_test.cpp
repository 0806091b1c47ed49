// The program as a user meets it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "shade/base/error.h"
#include "shade/base/json.h"
#include "shade/base/strings.h"
#include "tests/support/process.h"

namespace shade {
namespace {

TEST(Cli, VersionNamesEverything) {
  const auto seen = test::run_shade({"--version"});
  EXPECT_EQ(seen.status, 0);
  for (const char* part : {"shade 0.2.0 (", "libtorch 2.15.0", "compiler ", "backends gloo, simulated, nccl "})
    EXPECT_NE(seen.output.find(part), std::string::npos) << part;
}

TEST(Cli, HelpShowsDefaultsUnitsAndAnExample) {
  const auto seen = test::run_shade({"comm", "--help"});
  EXPECT_EQ(seen.status, 0);
  for (const char* part : {"--sizes,--collectives.sizes", "[1MiB,4MiB,16MiB,64MiB]", "--comm.peer-timeout", "[10.0s]",
                           "Example:\n  shade comm --ranks 2", "--json", "--log-level", "--ranks"})
    EXPECT_NE(seen.output.find(part), std::string::npos) << part << "\n" << seen.output;
  EXPECT_NE(test::run_shade({}).output.find("launch"), std::string::npos);
}

TEST(Cli, TyposAreAnsweredWithWhatWasMeant) {
  EXPECT_NE(test::run_shade({"bench", "--dp", "flash", "--mode", "none"})
                .output.find("--dp flash and --mode none are two names of one option; drop one of them"),
            std::string::npos);
  EXPECT_EQ(test::run_shade({"com"}).output,
            "shade: unknown verb 'com'; did you mean 'comm'? (shade --help lists them)\n");
  const auto seen = test::run_shade({"comm", "--szies", "1MiB"});
  EXPECT_EQ(seen.status, 2);
  EXPECT_EQ(seen.output,
            "shade comm: unknown option '--szies'; did you mean '--sizes'?\n"
            "  shade comm --help shows the options.\n");
  EXPECT_NE(test::run_shade({"comm", "--sizes", "64M"}).output.find("collectives.sizes: '64M' is not a size"),
            std::string::npos);
  EXPECT_NE(test::run_shade({"comm", "--log-level", "loud"}).output.find("log level 'loud' is unknown"),
            std::string::npos);
  EXPECT_NE(test::run_shade({"comm"}).output.find("a world of one rank has no collectives to measure; add --ranks 2"),
            std::string::npos);
}

// As torchrun, Slurm and mpirun start them: files may differ between hosts, so there is one message for each.
TEST(Cli, AUsageErrorIsPrintedOncePerHost) {
  const auto as_rank = [](int rank) {
    return test::run(
        {test::shade_binary(), "comm", "--szies", "1MiB"},
        {.environment = {
             {"RANK", text(rank)}, {"LOCAL_RANK", text(rank % 2)}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2"}}});
  };
  for (const int rank : {0, 1, 2, 3}) {
    const auto seen = as_rank(rank);
    EXPECT_EQ(seen.status, 2) << rank;
    EXPECT_EQ(seen.output.find("unknown option '--szies'") != std::string::npos, rank % 2 == 0) << seen.output;
    EXPECT_EQ(seen.output.empty(), rank % 2 == 1) << seen.output;
  }
}

// Optimizers are fp32; fp64 is for shade verify.
TEST(Cli, TrainingInFp64IsNotOffered) {
  for (const std::string verb : {"train", "bench", "compare"}) {
    const auto seen = test::run_shade({verb, "--model", "llama-nano", "--dtype", "fp64"});
    EXPECT_EQ(seen.status, 2) << seen.output;
    EXPECT_NE(seen.output.find("dtype: 'fp64' is unknown; expected one of fp32, bf16"), std::string::npos)
        << seen.output;
  }
}

// Names in files and of files, in the table, in warnings and in errors.
TEST(Cli, EscapeSequencesInFilesDoNotReachTheTerminal) {
  const auto folder = std::filesystem::temp_directory_path() / text("shade_cli_escapes_", ::getpid());
  const std::string bell = "\x1b]0;owned\x07", name = bell + ".json";
  std::filesystem::create_directories(folder / "runs" / bell);
  write_json(folder / name, {{"mode", bell}, {"model", bell}, {"avg_time_ms", 1.0}, {"peak_memory_mb", 1.0}});
  write_json(folder / "failed.json", {{"failed", true}, {"reason", bell}});
  std::ofstream(folder / ("broken" + name)) << "{";
  std::ofstream(folder / "runs" / bell / "metrics.jsonl") << "{\"step\": 1, \"loss\": 2}\n";
  const auto clean = [](const test::Outcome& seen) {
    return seen.output.find_first_of("\x1b\x07") == std::string::npos;
  };
  const auto model = (folder / "models" / bell).string(), out = (folder / (bell + "out")).string();
  const auto with = [](const std::string& words, const std::vector<std::string>& more) {
    auto all = split(words, ' ');
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const auto made = test::run_shade(with(
      "train --model llama-nano --from-scratch --synthetic --train.records 8 --dp none --batch-size 4 --micro-batch 4 "
      "--steps 1 --seq-length 8 --peak-gflops 100",
      {"--output", folder / "run", "--export", model}));
  ASSERT_EQ(made.status, 0) << made.output;
  const std::string tiny = " --threads 1 --num-iter 1 --batch-size 1";
  for (const auto& [words, status] : std::vector<std::pair<std::vector<std::string>, int>>{
           {{"report", folder.string()}, 0},
           {with("bench --seq-length 8" + tiny, {"--model", model}), 0},
           {with("compare --model linear-nano" + tiny, {"--output-dir", out}), 0},
           {with("scan --seq 8,16,32 --repeats 1 --model llama-nano" + tiny, {"--output-dir", out + "2"}), 0},
           {{"report", (folder / "runs" / bell).string()}, 0},
           {{"report", (folder / bell).string()}, 2},
           {{"train", (folder / name).string()}, 2},
           {{bell}, 2}}) {
    const auto seen = test::run_shade(words);
    EXPECT_EQ(seen.status, status) << seen.output;
    EXPECT_TRUE(clean(seen)) << seen.output;
    EXPECT_NE(seen.output.find("\\x1b]0;owned\\x07"), std::string::npos) << seen.output;
  }
  std::filesystem::remove_all(folder);
}

// What a command writes is its own: colours pass. In the report of its failure its last words are shown.
TEST(Cli, LaunchPassesBytesOnAndShowsLastWords) {
  const std::string bytes("\x1b[31mred\x1b[0m a\0b", 16);
  const auto seen = test::run_shade(
      {"launch", "-n", "1", "--", "/bin/sh", "-c", "printf '\\033[31mred\\033[0m a\\000b\\n' >&2; exit 3"});
  EXPECT_EQ(seen.status, 3);
  EXPECT_NE(seen.output.find("[0] " + bytes + "\n"), std::string::npos) << seen.output;
  EXPECT_NE(seen.output.find("exit status 3: \\x1b[31mred\\x1b[0m a\\x00b"), std::string::npos) << seen.output;
}

TEST(Cli, FilesAndOptionsBecomeOneConfiguration) {
  const auto folder = std::filesystem::path(testing::TempDir()) / text("cli_", ::getpid());
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "c.toml") << "[collectives]\nsizes = [\"1KiB\", \"2KiB\"]\niterations = 3\n";
  const auto seen = test::run_shade({"comm", "--ranks", "2", "--config", (folder / "c.toml").string(), "--num-iter",
                                     "1", "--collectives", "all_gather", "--json", (folder / "out.json").string()});
  ASSERT_EQ(seen.status, 0) << seen.output;
  const auto result = read_json(folder / "out.json");
  EXPECT_EQ(result["config"]["collectives"]["iterations"], 1) << "the option wins";
  EXPECT_EQ(result["config"]["collectives"]["sizes"], Json::array({1024, 2048}));
  ASSERT_EQ(result["rows"].size(), 2u);
  const auto& row = result["rows"][1];
  EXPECT_EQ(row["collective"], "all_gather");
  EXPECT_EQ(row["bytes"], 2048);
  EXPECT_EQ(row["dtype"], "fp32");
  EXPECT_DOUBLE_EQ(row["ratio"], row["ours_ms"].get<double>() / row["stock_ms"].get<double>());
  std::filesystem::remove_all(folder);
}

TEST(Cli, AccountAnswersAPersonAndAScript) {
  const auto file = std::filesystem::path(testing::TempDir()) / text("account_", ::getpid(), ".json");
  const auto seen = test::run_shade(
      {"account", "--sigma", "1.5", "--rate", "0.04", "--steps", "2250", "--delta", "1e-5", "--json", file.string()});
  ASSERT_EQ(seen.status, 0) << seen.output;
  for (const char* part : {"epsilon 6.76", " at delta 1e-05 by prv", "upper bound, Renyi order 3.9", "diagnostic only"})
    EXPECT_NE(seen.output.find(part), std::string::npos) << part << "\n" << seen.output;
  const auto result = read_json(file);
  EXPECT_NEAR(result["epsilon"].get<double>(), 6.7688, 3e-4);
  EXPECT_EQ(result["delta"], 1e-5);
  EXPECT_EQ(result["accountant"], "prv");
  EXPECT_EQ(result["sigma"], 1.5);
  EXPECT_EQ(result["sample_rate"], 0.04);
  EXPECT_EQ(result["steps"], 2250);
  EXPECT_NEAR(result["accountants"]["rdp"]["epsilon"].get<double>(), 7.329111171484, 1e-9);
  EXPECT_EQ(result["accountants"]["gdp"]["upper_bound"], false);

  const auto solved = test::run_shade({"account", "--target-epsilon", "8", "--sample-rate", "0.04", "--steps", "2250",
                                       "--accountant", "rdp", "--json", file.string()});
  ASSERT_EQ(solved.status, 0) << solved.output;
  EXPECT_LE(read_json(file)["epsilon"].get<double>(), 8);
  EXPECT_NEAR(read_json(file)["sigma"].get<double>(), 1.416, 1e-3);
  std::filesystem::remove(file);
}

TEST(Cli, AccountRefusesWhatHasNoAnswer) {
  const auto fault = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"account", "--rate", "0.04", "--steps", "10"});
    const auto seen = test::run_shade(words);
    EXPECT_EQ(seen.status, 2) << seen.output;
    return seen.output;
  };
  EXPECT_NE(
      fault({}).find("expected either --sigma (to get epsilon) or --target-epsilon (to get sigma), found neither"),
      std::string::npos);
  EXPECT_NE(fault({"--sigma", "1", "--target-epsilon", "8"}).find("found both"), std::string::npos);
  EXPECT_NE(fault({"--sigma", "-1"}).find("sigma -1 is out of range; expected 0.01 to 1e+06"), std::string::npos);
  EXPECT_NE(fault({"--sigma", "1", "--sampler", "shuffled"}).find("no epsilon for the shuffled sampler"),
            std::string::npos);
  EXPECT_NE(fault({"--sigma", "1", "--sampler", "truncated_poisson"}).find("needs the largest batch"),
            std::string::npos);
}

// libgomp prints the settings that it has read.
TEST(Waits, OfThreadsAreShortUnlessTheUserDecides) {
  const auto settings = [](const std::string& environment) {
    return test::run({"sh", "-c",
                      text("unset OMP_WAIT_POLICY GOMP_SPINCOUNT; ", environment, " OMP_DISPLAY_ENV=verbose ",
                           test::shade_binary(), " --version")})
        .output;
  };
  EXPECT_NE(settings("").find("GOMP_SPINCOUNT = '3000'"), std::string::npos) << settings("");
  EXPECT_NE(settings("GOMP_SPINCOUNT=17").find("GOMP_SPINCOUNT = '17'"), std::string::npos);
  EXPECT_NE(settings("OMP_WAIT_POLICY=active").find("OMP_WAIT_POLICY = 'ACTIVE'"), std::string::npos);
}

TEST(Waits, OfOtherProgramsAreTheirOwn) {
  const auto outcome = test::run({"sh", "-c",
                                  text("unset OMP_WAIT_POLICY GOMP_SPINCOUNT; ", test::shade_binary(),
                                       " launch --ranks 1 -- sh -c 'echo spins ${GOMP_SPINCOUNT:-by default}'")});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("spins by default"), std::string::npos) << outcome.output;
}

}  // namespace
}  // namespace shade
