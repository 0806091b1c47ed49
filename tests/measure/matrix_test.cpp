// The matrix: rows from lists of values; real `shade bench` processes; failures, memory limits, resuming.
#include "shade/measure/matrix.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <set>
#include <thread>

#include "tests/support/fault.h"
#include "tests/support/process.h"

namespace shade::measure {
namespace {

using test::run;
using test::shade_binary;

TEST(Matrix, RowsAreTheProductOfLists) {
  const auto rows = expand({"--model", "llama-nano", "--dp", "none,ghost", "--seq=8,16", "--resume-nothing"});
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].name, "no_dp_seq8");
  EXPECT_EQ(rows[3].name, "ghost_seq16");
  EXPECT_EQ(rows[3].arguments, (std::vector<std::string>{"--model", "llama-nano", "--resume-nothing", "--dp", "ghost",
                                                         "--seq-length", "16"}));
  EXPECT_EQ(expand({"--dp", "flash", "--seq-length", "8"}).at(0).name, "flash") << "no list, one row";
  EXPECT_EQ(expand({"--shard", "zero2,zero3", "--batch-size", "1,2"}).at(1).name, "no_dp_zero2_batch2");
  const auto script = expand({"--batch_sizes", "2", "4", "8", "--num_steps", "50", "--nproc_per_node", "2"});
  ASSERT_EQ(script.size(), 3u) << "lists as Python's scripts write them";
  EXPECT_EQ(script[2].name, "no_dp_batch8");
  EXPECT_EQ(script[2].arguments, (std::vector<std::string>{"--num-iter", "50", "--ranks", "2", "--batch-size", "8"}));
}

TEST(Matrix, WhatComesLaterReplacesWhatCameBefore) {
  const auto rows = expand({"--shard", "zero2,zero3", "--ranks", "2", "--batch-size", "1,2", "--seq-length", "8,16",
                            "--data_parallel=ddp", "--bench.batch-size", "4,5,6", "--seq", "32", "--ranks", "1"});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].arguments,
            (std::vector<std::string>{"--shard", "ddp", "--ranks", "1", "--seq-length", "32", "--batch-size", "4"}));
  EXPECT_EQ(rows[2].name, "no_dp_batch6");
  auto words = preset_arguments("linear", Scale::small);
  const auto whole = expand(words).size();
  words.insert(words.end(), {"--wrap", "none"});
  EXPECT_EQ(expand(words).size() * 3, whole) << "the preset calls it --auto_wrap_policy";
}

TEST(Matrix, AListByNatureIsOneValue) {
  const auto rows = expand({"--lora-targets", "q_proj,v_proj", "--model.lora-rank", "2,4"});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].arguments, (std::vector<std::string>{"--lora-targets", "q_proj,v_proj", "--lora-rank", "4"}));
}

TEST(Matrix, PresetsAreKnownByName) {
  for (const auto& preset : presets())
    for (const auto scale : {Scale::small, Scale::full})
      EXPECT_GT(expand(preset_arguments(preset.name, scale)).size(), 1u) << preset.name;
  EXPECT_EQ(test::fault([] { preset_arguments("dti", Scale::small); }),
            "no preset is called 'dti'; did you mean 'dit'?; there are llama3-fsdp, bottlenecks, zero2-vs-zero3, "
            "linear, dit");
}

class Folder : public testing::Test {
 protected:
  Folder() { std::filesystem::remove_all(path); }
  ~Folder() override { std::filesystem::remove_all(path); }
  std::vector<std::string> compare(std::vector<std::string> more) const {
    std::vector<std::string> words{shade_binary(), "compare", "--model",      "linear-nano", "--threads", "1",
                                   "--num-iter",   "1",       "--output-dir", path.string()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::filesystem::path path =
      std::filesystem::temp_directory_path() /
      text("shade_matrix_", ::testing::UnitTest::GetInstance()->random_seed(), "_", ::getpid());
};

TEST_F(Folder, ARowThatFailsDoesntStopTheOthers) {
  // Two ranks can't make a mesh with three copies: that row fails, and says why.
  const auto outcome =
      run(compare({"--ranks", "2", "--shard", "ddp,hsdp,zero3", "--replicate", "3", "--repeats", "1"}));
  EXPECT_EQ(outcome.status, 1) << outcome.output;
  EXPECT_TRUE(read_json(path / "no_dp_hsdp_result.json").at("failed").get<bool>());
  EXPECT_NE(read_json(path / "no_dp_hsdp_result.json").at("reason").get<std::string>().find("replicate"),
            std::string::npos);
  const auto zero3 = read_json(path / "no_dp_zero3_result.json");
  EXPECT_GT(zero3.at("avg_time_ms").get<double>(), 0);
  // What a plan says of it stands beside it, and nothing beside what can't be run.
  EXPECT_NEAR(zero3.at("predicted").at("peak_memory_mb").get<double>() / zero3.at("peak_memory_mb").get<double>(), 1,
              0.1);
  EXPECT_EQ(zero3.at("predicted").at("sent_bytes"), zero3.at("communication").at("bytes"));
  EXPECT_FALSE(read_json(path / "no_dp_hsdp_result.json").contains("predicted"));
  EXPECT_NE(outcome.output.find("predicted memory"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("3 experiments, 1 failed"), std::string::npos) << outcome.output;
}

TEST_F(Folder, AMemoryLimitIsARowsOwn) {
  const auto outcome = run(compare({"--hidden-dim", "64,12000", "--memory-limit", "700MiB"}));
  EXPECT_EQ(outcome.status, 1) << outcome.output;
  const auto large = read_json(path / "no_dp_hidden-dim12000_result.json");
  EXPECT_TRUE(large.at("out_of_memory").get<bool>()) << large.dump();
  EXPECT_FALSE(read_json(path / "no_dp_hidden-dim64_result.json").contains("failed"));
  EXPECT_NE(outcome.output.find("the largest row that fit is no_dp_hidden-dim64"), std::string::npos) << outcome.output;
}

TEST_F(Folder, WhatWasKilledIsResumedWithoutRepeatingRows) {
  const auto words = compare({"--seed", "1,2,3,4,5,6", "--repeat", "2"});
  const auto child = ::fork();
  if (child == 0) {
    std::vector<char*> pointers;
    for (const auto& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
    pointers.push_back(nullptr);
    ::execv(pointers[0], pointers.data());
    ::_exit(127);
  }
  const auto finished = [&] {
    std::map<std::string, std::filesystem::file_time_type> out;
    if (std::filesystem::exists(path / "repeats"))
      for (const auto& entry : std::filesystem::directory_iterator(path / "repeats"))
        if (entry.path().extension() == ".json") out[entry.path().filename()] = entry.last_write_time();
    return out;
  };
  while (finished().size() < 3) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const auto before = finished();
  ASSERT_LT(before.size(), 12u);
  auto again = words;
  again.emplace_back("--resume");
  const auto outcome = run(again);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  const auto after = finished();
  EXPECT_EQ(after.size(), 12u);
  for (const auto& [name, when] : before) EXPECT_EQ(after.at(name), when) << name << " ran again";
  EXPECT_EQ(read_json(path / "no_dp_seed3_result.json").at("times_ms").size(), 2u) << "both repeats";
}

TEST_F(Folder, RepeatsUntilTheBudgetIsUsedAndSaysWhatIsKnown) {
  const auto begin = std::chrono::steady_clock::now();
  const auto outcome = run(compare({"--dp", "ghost,none", "--time-budget", "6s"}));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_LT(took.count(), 30);
  const auto result = read_json(path / "ghost_result.json"), reference = read_json(path / "no_dp_result.json");
  const auto runs = result.at("repeats").get<size_t>();
  EXPECT_GE(runs, 2u);
  EXPECT_EQ(result.at("run_times_ms").size(), runs);
  EXPECT_EQ(result.at("own_runs_ms").at("forward").size(), runs);
  EXPECT_EQ(result.at("ratio").at("reference"), "no_dp");
  EXPECT_EQ(result.at("ratio").at("runs"), runs);
  EXPECT_EQ(result.at("ratio").at("interval").is_array(), runs >= 9) << result.at("ratio");
  EXPECT_FALSE(reference.contains("ratio"));
  for (const auto& one : {result, reference}) {
    EXPECT_GE(one.at("load").at("most_others").get<double>(), one.at("load").at("others").get<double>());
    EXPECT_LE(one.at("load").at("most_others").get<double>(), 1);
  }
  EXPECT_NE(outcome.output.find(" x no_dp ("), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("load by others"), std::string::npos) << outcome.output;
}

// Own times add up to the step, and every phase has its own wait: none is longer than the step, none negative.
TEST_F(Folder, AShardedScanCountsEveryMomentOnce) {
  const auto outcome = run({shade_binary(), "scan",        "--model",   "llama-nano",
                            "--ranks",      "2",           "--shard",   "zero3",
                            "--dp",         "ghost",       "--seq",     "8,16,32",
                            "--num-iter",   "2",           "--repeats", "2",
                            "--output-dir", path.string(), "--json",    (path.string() + ".json")});
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const auto result = read_json(path / "ghost_seq32_result.json");
  double own = 0, waits = 0;
  for (const auto& [phase, ms] : result.at("own_ms").items()) {
    EXPECT_GE(ms.get<double>(), 0) << phase;
    own += ms.get<double>();
  }
  for (const auto& [phase, ms] : result.at("waits_ms").items()) waits += ms.get<double>();
  EXPECT_GT(own, 0.5 * result.at("avg_time_ms").get<double>());
  EXPECT_NEAR(waits,
              result["own_ms"].value("gather_wait", 0.0) + result["own_ms"].value("reduce_wait", 0.0) +
                  result["own_ms"].value("comm_wait", 0.0),
              1e-6);
  const auto scan = read_json(path.string() + ".json");
  std::filesystem::remove(path.string() + ".json");
  std::set<std::string> phases, kinds;
  for (const auto& phase : scan.at("phases")) phases.insert(phase.at("phase").get<std::string>());
  for (const auto& kind : scan.at("memory")) kinds.insert(kind.at("category").get<std::string>());
  for (const auto* phase :
       {"forward", "first_backward", "second_backward", "norms", "noise", "optimizer", "other", "coefficients", "step"})
    EXPECT_TRUE(phases.contains(phase)) << phase << " has vanished";
  EXPECT_TRUE(kinds.contains("total") && kinds.contains("activations"));
  EXPECT_EQ(scan.at("methods").size(), 1u);
  EXPECT_EQ(scan.at("phases").at(0).at("points").at(0).at("runs").size(), 2u);
}

}  // namespace
}  // namespace shade::measure
