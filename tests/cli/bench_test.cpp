// shade bench as a user runs it: ranks, strategies, result file; and a rank that dies in the middle.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "shade/base/json.h"
#include "tests/io/scratch.h"
#include "tests/support/process.h"
#include "tests/support/result_keys.h"

namespace shade::test {
namespace {

std::vector<std::string> bench(std::vector<std::string> more) {
  std::vector<std::string> words{shade_binary(), "bench", "--model", "llama-nano", "--seq-length", "16"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Bench, WritesTheKeysThatStay) {
  const auto file = std::filesystem::temp_directory_path() / "shade_bench_test.json";
  for (const auto* strategy : {"ddp", "SHARD_GRAD_OP", "FULL_SHARD"}) {
    const auto outcome =
        run(bench({"--ranks", "2", "--shard", strategy, "--grad-accum", "2", "--json", file.string()}));
    ASSERT_EQ(outcome.status, 0) << outcome.output;
    const auto json = read_json(file);
    for (const auto& key : result_keys()) EXPECT_TRUE(json.contains(key)) << key;
    EXPECT_EQ(json["total_batch_size"], 8);
    for (const auto* key : {"date", "host", "command", "shade", "commit", "libtorch"})
      EXPECT_TRUE(json["environment"].contains(key)) << key;
    const auto command = json["environment"]["command"].get<std::string>();
    EXPECT_TRUE(command.starts_with("shade bench --model llama-nano")) << command;
    EXPECT_EQ(command.find(file.parent_path().string()), std::string::npos)
        << "the folder of a path stays: " << command;
    EXPECT_NE(command.find(".../shade_bench_test.json"), std::string::npos) << command;
    EXPECT_EQ(json["num_ranks"], 2);
    EXPECT_GT(json["communication"]["bytes"].get<int64_t>(), 0);
    EXPECT_GT(json["average_memory_mb"].get<double>(), 0);
    EXPECT_LE(json["average_memory_mb"], json["peak_memory_mb"]);
    double sum = 0;
    for (const auto& [kind, mb] : json["breakdown"].items()) sum += mb.get<double>();
    EXPECT_NEAR(sum, json["peak_memory_mb"].get<double>(), 1e-6) << "the kinds add up";
    EXPECT_LT(json["losses"].back().get<double>(), json["losses"].front().get<double>());
  }
  std::filesystem::remove(file);
}

// The bare model, and PyTorch's beside it where that is installed.
TEST(Bench, MeasuresForwardAndBackwardAlone) {
  const io::Scratch here;
  const auto file = here.path() / "bench.json";
  std::vector<std::string> words{"--work",         "forward_backward",
                                 "--num-iter",     "2",
                                 "--trace",        here.path() / "t/",
                                 "--json",         file,
                                 "--task",         "classify",
                                 "--num-heads",    "2",
                                 "--num-kv-heads", "1",
                                 "--hidden-dim",   "128",
                                 "--ffn-dim",      "384",
                                 "--threads",      "1"};
  const bool peers = std::filesystem::exists(source_root() + "/.deps/peers/bin/python");
  if (peers) words.emplace_back("--peers");
  const auto outcome = run(bench(words));
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  const auto json = read_json(file);
  EXPECT_EQ(json["times_ms"].size(), 2u);
  EXPECT_GT(json["peak_memory_mb"].get<double>(), 0);
  EXPECT_EQ(json["communication"]["bytes"], 0);
  EXPECT_GT(std::distance(std::filesystem::recursive_directory_iterator(here.path() / "t"), {}), 0);
  if (!peers) return;
  EXPECT_EQ(json["peer_times_ms"].size(), 2u);
  const auto& row = json["rows"][0];
  EXPECT_GT(row["peer_ms"].get<double>(), 0);
  EXPECT_NEAR(row["ratio_time"].get<double>(), row["ours_ms"].get<double>() / row["peer_ms"].get<double>(), 1e-9);
}

// Results are shared: of a path on this machine the last name stays.
TEST(Bench, AResultHasNoWholePath) {
  const io::Scratch here;
  const auto model = source_root() + "/tests/golden/llama_lm", file = (here.path() / "result.json").string();
  const auto measured =
      run(bench({"--model-folder", model, "--num-iter", "1", "--trace", here.path().string() + "/", "--json", file}));
  ASSERT_EQ(measured.status, 0) << measured.output;
  const auto folder = (here.path() / "rows").string();
  const auto compared = run({shade_binary(), "compare", "--model", model, "--seq", "16", "--repeat", "1",
                             "--memory-limit", "40MiB", "--output-dir", folder});
  EXPECT_EQ(compared.status, 1) << compared.output;
  const auto lost = run({shade_binary(), "compare", "--data-folder", (here.path() / "missing").string(), "--dp", "none",
                         "--repeat", "1", "--output-dir", folder + "_lost"});
  EXPECT_EQ(lost.status, 1) << lost.output;
  EXPECT_NE(lost.output.find(".../missing"), std::string::npos) << lost.output;
  const auto result = read_json(file), row = read_json(std::filesystem::path(folder) / "no_dp_result.json");
  EXPECT_EQ(result["model"], ".../llama_lm");
  EXPECT_EQ(result["config"]["model"]["model"], ".../llama_lm");
  EXPECT_EQ(row["arguments"][1], ".../llama_lm") << row;
  const auto failed = read_json(std::filesystem::path(folder + "_lost") / "no_dp_result.json");
  for (const auto& json : {result, row, failed})
    for (const auto& path : {source_root(), here.path().string()})
      EXPECT_EQ(json.dump().find(path), std::string::npos) << path << " in " << json;
}

// Wherever it was built: a path that is compiled in may be anyone's on another host.
TEST(Bench, APeersPythonIsNotTakenFromTheFolderOfTheBuild) {
  const io::Scratch here;
  const auto moved = here.path() / "build/release/bin/shade";
  std::filesystem::create_directories(moved.parent_path());
  std::filesystem::copy_file(shade_binary(), moved);
  const auto outcome = run({moved.string(), "bench", "--model", "dit-nano", "--peers", "--num-iter", "1"});
  EXPECT_EQ(outcome.status, 2) << outcome.output;
  const auto sought = text("the PyTorch peers are not installed (no ", here.path().string(), "/.deps/peers/bin/python");
  EXPECT_NE(outcome.output.find(sought), std::string::npos) << outcome.output;
}

// A recipe says model, data, sharding, optimizer and privacy as shade train takes them; options win.
TEST(Bench, MeasuresARecipe) {
  const auto folder = std::filesystem::temp_directory_path();
  const auto file = folder / "shade_bench_recipe_test.json", recipe = folder / "shade_bench_recipe_test.toml";
  std::ofstream(recipe) << R"([model]
model = "llama-nano"
from_scratch = true
task = "lm"
num_layers = 3
lora_rank = 2
lora_alpha = 8.0
lora_targets = ["q_proj", "o_proj"]
[dp]
sampler = "poisson"
target_epsilon = 8.0
delta = 1e-5
[optim]
schedule = "cosine"
[train]
steps = 30
batch_size = 64
micro_batch = "3"
seq_length = 12
synthetic = true
)";
  const auto measured = [&](std::vector<std::string> more) {
    std::vector<std::string> words{shade_binary(), "bench", "--config", recipe.string(),
                                   "--num-iter",   "1",     "--json",   file.string()};
    words.insert(words.end(), more.begin(), more.end());
    const auto outcome = run(words);
    EXPECT_EQ(outcome.status, 0) << outcome.output;
    return read_json(file);
  };
  const auto json = measured({});
  EXPECT_EQ(json["dp"], "auto") << "a target epsilon asks for privacy";
  EXPECT_EQ(json["batch_size"], 3) << "what a rank computes at a time";
  EXPECT_EQ(json["seq_length"], 12);
  EXPECT_EQ(json["config"]["model"]["lora_targets"], (Json{"q_proj", "o_proj"}));
  EXPECT_EQ(json["config"]["model"]["lora_alpha"], 8.0);
  EXPECT_LT(json["trainable_parameters"], json["parameters"]);
  const auto other = measured({"--dp", "none", "--batch-size", "5", "--seq-length", "8", "--lora-targets", "q_proj"});
  EXPECT_EQ(other["dp"], "none");
  EXPECT_EQ(other["batch_size"], 5);
  EXPECT_EQ(other["seq_length"], 8);
  EXPECT_LT(other["trainable_parameters"], json["trainable_parameters"]);
  std::ofstream(recipe, std::ios::app) << "stepps = 3\n";
  const auto refused = run({shade_binary(), "bench", "--config", recipe.string()});
  EXPECT_EQ(refused.status, 2) << refused.output;
  EXPECT_NE(refused.output.find("unknown key 'train.stepps'"), std::string::npos) << refused.output;
  std::filesystem::remove(file);
  std::filesystem::remove(recipe);
}

TEST(Bench, SaysWhatTheMemoryOfEachStageIs) {
  const auto outcome = run({shade_binary(),
                            "bench",
                            "--model",
                            "linear",
                            "--hidden-dim",
                            "64",
                            "--data_parallel",
                            "fsdp",
                            "--batch-size",
                            "32",
                            "--auto_wrap_policy",
                            "size_based",
                            "--min_num_params",
                            "5000",
                            "--backward_prefetch",
                            "BACKWARD_POST",
                            "--forward_prefetch",
                            "--cpu_offload",
                            "--ranks",
                            "2"});
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  // A flat record per rank and stage, each on a line of its own.
  std::map<std::string, int> stages;
  std::istringstream lines(outcome.output);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("{\"stage\"")) continue;
    const auto record = parse_json(line);
    ++stages[text(record.at("stage").get<std::string>(), " ", record.at("rank").get<int>())];
    EXPECT_EQ(record.at("log_key"), "memory");
    EXPECT_EQ(record.at("device"), "cpu");
    for (const auto* key : {"cuda_memory_allocated_GB", "cuda_max_memory_allocated_GB", "cuda_memory_reserved_GB",
                            "cuda_max_memory_reserved_GB", "cpu_memory_rss_GB"})
      EXPECT_TRUE(record.at(key).is_number()) << key;
  }
  for (const auto* stage : {"after data creation", "after model creation", "after warmup", "after training"})
    for (const auto* rank : {" 0", " 1"}) EXPECT_EQ(stages[text(stage, rank)], 1) << outcome.output;
}

TEST(Bench, PrintsAStageWhenItIsReached) {
  Running job(bench({"--ranks", "2", "--shard", "zero3", "--num-iter", "10000000"}));
  for (const auto* stage : {"after data creation", "after model creation", "after warmup"})
    EXPECT_TRUE(job.says(text("{\"stage\":\"", stage, "\",\"rank\":1"))) << job.output();
  EXPECT_FALSE(job.gone());
}

TEST(Bench, PrintsPhasesRanksAndTheTimeOfAnEpoch) {
  const io::Scratch here;
  const auto texts = here.path() / "texts", file = here.path() / "result.json";
  std::filesystem::create_directory(texts);
  for (int i = 0; i < 7; ++i) std::ofstream(texts / text(i, ".txt")) << "a text of some words, number " << i;
  const auto outcome =
      run(bench({"--ranks", "2", "--shard", "zero3", "--dp", "ghost", "--task", "lm", "--vocab-size", "300",
                 "--batch-size", "2", "--data-folder", texts.string(), "--json", file.string()}));
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  for (const auto* words : {"first_backward", "second_backward", "norm", "of model.", "by rank", "gram_matrices",
                            "epoch", "llama 32 x 2, shape of llama-nano"})
    EXPECT_NE(outcome.output.find(words), std::string::npos) << words << "\n" << outcome.output;
  const auto json = read_json(file);
  EXPECT_EQ(json["mode"], "ghost");
  EXPECT_EQ(json["config"]["model_name"], "llama 32 x 2, shape of llama-nano");
  // 7 records, 4 in a step
  EXPECT_NEAR(json["time_per_epoch_s"].get<double>(), 2 * json["median_time_ms"].get<double>() / 1e3, 1e-9);
  EXPECT_EQ(json["memory_by_rank"].size(), 2u);
}

TEST(Bench, AModelFolderIsCheckedAsInTraining) {
  const auto folder = source_root() + "/tests/golden";
  for (const auto* verb : {"bench", "audit"}) {
    const auto outcome = run({shade_binary(), verb, "--model-folder", folder});
    EXPECT_EQ(outcome.status, 2) << verb;
    EXPECT_NE(outcome.output.find("--model-folder " + folder + " has no config.json"), std::string::npos)
        << verb << "\n"
        << outcome.output;
  }
}

TEST(Bench, RefusesAWorldThatIsNotToBeSharded) {
  const auto outcome = run(bench({"--ranks", "2", "--shard", "none"}));
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.output.find("choose one of ddp, zero2, zero3, hsdp"), std::string::npos) << outcome.output;
}

TEST(Bench, ALostRankEndsTheJobNamingUnitAndCollective) {
  const auto script = text(shade_binary(),
                           " bench --model llama-nano --num-layers 6 --seq-length 256 --batch-size 4 --num-iter 100000 "
                           "--ranks 2 --shard zero3 & job=$!; sleep 4; kill -9 $(pgrep -P $job | tail -n 1); "
                           "date +killed:%s%3N; wait $job; status=$?; date +ended:%s%3N; exit $status");
  const auto outcome = run({"/bin/bash", "-c", script});
  EXPECT_NE(outcome.status, 0);
  const auto at = [&](const char* word) {
    const auto found = outcome.output.find(word);
    return found == std::string::npos ? 0 : std::stoll(outcome.output.substr(found + std::string(word).size()));
  };
  EXPECT_LT(at("ended:") - at("killed:"), 10'000) << outcome.output;
  EXPECT_NE(outcome.output.find("failed first: killed by signal 9"), std::string::npos) << outcome.output;
  // Which unit and collective: of the rank that was waiting, or the one that computed after.
  EXPECT_TRUE(outcome.output.find("all_gather gather ") != std::string::npos ||
              outcome.output.find("reduce_scatter reduce ") != std::string::npos)
      << outcome.output;
}

TEST(Bench, UseProfilerIsATraceInItsUsualFolder) {
  const io::Scratch here;
  const auto outcome = run({"/bin/sh", "-c",
                            text("cd ", here.path().string(), " && exec ", shade_binary(),
                                 " bench --model llama-nano --seq-length 16 --num-iter 1 --use_profiler")});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  int traces = 0;
  for (const auto& item : std::filesystem::recursive_directory_iterator(here.path() / "traces"))
    traces += item.path().filename() == "rank0.pt.trace.json" ? 1 : 0;
  EXPECT_EQ(traces, 1);
}

}  // namespace
}  // namespace shade::test
