// The five presets, made small enough for seconds: every file, key and picture that the documents promise.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <regex>
#include <set>

#include "shade/base/json.h"
#include "shade/base/strings.h"
#include "shade/measure/matrix.h"
#include "tests/report/picture.h"
#include "tests/support/process.h"
#include "tests/support/result_keys.h"

namespace shade::measure {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

struct Expected {
  std::string preset;
  std::string model;  // what it may be called
  Words overrides;
  Words results;   // without _result.json
  Words pictures;  // those its document names
  Words phases;    // of every private row
};

const Words kTinyText{"--hidden-dim", "32", "--num-layers", "2",   "--num-heads", "4", "--num-kv-heads", "2",
                      "--ffn-dim",    "64", "--vocab-size", "260", "--num-iter",  "2"};

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words product(const Words& first, const Words& then) {
  Words out;
  for (const auto& a : first)
    for (const auto& b : then) out.push_back(a + b);
  return out;
}

const std::vector<Expected>& expectations() {
  static const Words methods{"memory_comparison", "time_comparison", "memory_vs_time_tradeoff", "overhead_analysis"};
  static const Words two_pass{"forward",      "first_backward", "second_backward", "norm",
                              "coefficients", "noise",          "optimizer"};
  static const std::vector<Expected> all{
      {.preset = "llama3-fsdp",
       .model = "llama 32 x 2, shape of llama3-8b",
       .overrides = kTinyText + Words{"--seq-length", "16,32"},
       .results = product({"no_dp", "ghost_fsdp", "flash_fsdp"}, {"_seq16", "_seq32"}),
       .pictures = methods,
       .phases = two_pass},
      {.preset = "bottlenecks",
       .model = "llama 32 x 2, shape of llama3-8b",
       .overrides = kTinyText + Words{"--seq", "16,32"},
       .results = product({"no_dp", "ghost", "flash", "flash_bookkeeping"}, {"_seq16", "_seq32"}),
       .pictures = methods,
       .phases = {"forward", "norm", "coefficients", "noise", "optimizer"}},
      {.preset = "zero2-vs-zero3",
       .model = "qwen2 32 x 2, shape of qwen2-1.5b",
       .overrides = kTinyText + Words{"--seq-length", "16", "--batch-size", "1,2", "--grad-accum", "1,2"},
       .results = product({"no_dp_SHARD_GRAD_OP", "no_dp_FULL_SHARD"},
                          product({"_accum1", "_accum2"}, {"_batch1", "_batch2"})),
       .pictures = {"tokens_per_second", "memory_vs_batch", "communication_overhead", "utilisation_heatmap",
                    "cpu_communication_breakdown"},
       .phases = {}},
      {.preset = "linear",
       .model = "linear 64 x 2",
       .overrides = {"--hidden-dim", "64", "--num-layers", "2", "--batch-size", "16", "--min-num-params", "1000",
                     "--num-iter", "2"},
       .results = product({"no_dp_ddp_wrap", "no_dp_fsdp_wrap"}, {"module_wrap", "size_based", "none"}),
       .pictures = {"memory_comparison", "time_comparison", "memory_timeline"},
       .phases = {}},
      {.preset = "dit",
       .model = "dit 64 x 2, shape of dit-l",
       .overrides = {"--hidden-dim", "64", "--num-layers", "2", "--num-heads", "4", "--image-size", "32", "--threads",
                     "1"},
       .results = {"vanilla", "ghost", "flash_clip", "bookkeeping", "flash_clip_bookkeeping"},
       .pictures = {"memory_breakdown_comparison", "memory_timeline", "performance_tradeoff"},
       .phases = {"forward", "norm", "coefficients", "noise", "optimizer"}}};
  return all;
}

std::string content(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void expect_keys(const Json& json, const Words& keys, const std::string& where) {
  for (const auto& key : keys) EXPECT_TRUE(json.contains(key)) << where << " has no key " << key;
}

// The keys that stay, and what the documents add to them.
void expect_result(const Json& result, const Expected& expected, const std::string& name) {
  ASSERT_FALSE(result.contains("failed")) << name << ": " << result;
  expect_keys(result, test::result_keys(), name);
  expect_keys(result["communication"], {"bytes", "time_ms", "exposed_ms"}, name + " communication");
  expect_keys(result["config"], {"model_name", "vocab_size", "learning_rate", "sigma", "max_grad_norm"},
              name + " config");
  expect_keys(result["environment"], {"libtorch", "cpu", "cores", "threads", "commit"}, name + " environment");
  expect_keys(
      result["breakdown"],
      {"parameters", "optimizer", "gradients", "kept_for_private_step", "norm_samples", "gram_matrices", "temporary"},
      name + " breakdown");
  std::set<std::string> stages;
  for (const auto& line : result["snapshots"]) {
    stages.insert(line.at("stage").get<std::string>());
    expect_keys(line, {"rank", "log_key", "allocated_mb", "max_allocated_mb", "reserved_mb", "rss_mb", "max_rss_mb"},
                name + " snapshot");
  }
  EXPECT_TRUE(stages.contains("after data creation") && stages.contains("after model creation") &&
              stages.contains("after warmup"))
      << name;
  for (const auto* positive : {"peak_memory_mb", "peak_memory_gb", "average_memory_mb", "avg_time_ms",
                               "tokens_per_second", "utilisation", "cpu_overhead_ms"})
    EXPECT_GT(result[positive].get<double>(), 0) << name << " " << positive << ": measured, on a CPU too";
  double sum = 0;
  for (const auto& [kind, mb] : result["breakdown"].items()) sum += mb.get<double>();
  EXPECT_NEAR(sum, result["peak_memory_mb"].get<double>(), 0.01 * sum) << name << ": kinds add up to the peak";
  const auto length = result["seq_length"].get<int64_t>();
  EXPECT_TRUE(expected.preset != "dit" || length == (32 / 8) * (32 / 8))
      << name << ": an image's patches, not " << length;
  EXPECT_TRUE(name.starts_with(result["mode"].get<std::string>())) << name << " is called " << result["mode"];
  EXPECT_EQ(result["preset"], (Json{{"name", expected.preset}, {"scale", "small"}})) << name;
  EXPECT_EQ(result["config"]["model_name"], expected.model) << name;
  EXPECT_EQ(result.contains("time_per_epoch_s"), expected.preset == "zero2-vs-zero3") << name;
  EXPECT_EQ(result["num_ranks"], expected.preset == "dit" ? 1 : 2) << name;
  EXPECT_EQ(result["total_batch_size"].get<int64_t>(), result["batch_size"].get<int64_t>() *
                                                           result["num_ranks"].get<int64_t>() *
                                                           result["config"]["bench"]["grad_accum"].get<int64_t>())
      << name;
  if (result["dp"] != "none") expect_keys(result["phases_ms"], expected.phases, name + " phases_ms");
}

class Presets : public testing::TestWithParam<Expected> {
 protected:
  ~Presets() override { fs::remove_all(folder); }
  fs::path folder = fs::path(testing::TempDir()) / text("presets_", ::getpid(), "_", GetParam().preset);
};

TEST_P(Presets, WriteEveryFileTheirDocumentNames) {
  const auto& expected = GetParam();
  const auto ran = test::run(Words{test::shade_binary(), "compare", "--preset", expected.preset, "--scale", "small",
                                   "--repeats", "1", "--output-dir", folder.string()} +
                                 expected.overrides,
                             {.limit = Seconds(240)});
  ASSERT_EQ(ran.status, 0) << ran.output;

  std::set<std::string> wanted, found;
  for (const auto& name : expected.results) wanted.insert(name + "_result.json");
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".json") found.insert(entry.path().filename());
  ASSERT_EQ(found, wanted);
  for (const auto& name : found) expect_result(read_json(folder / name), expected, name);

  for (const auto& name : expected.pictures)
    EXPECT_TRUE(fs::exists(folder / "visualizations" / (name + ".png"))) << name << ".png is not there\n" << ran.output;
  for (const auto& entry : fs::directory_iterator(folder / "visualizations")) {
    if (entry.path().extension() != ".png") continue;
    const auto picture = test::decode_picture(entry.path());
    EXPECT_GE(picture.width, 600u) << entry.path();
    EXPECT_GE(picture.height, 200u) << entry.path();  // bars lie: few rows make a low picture
    EXPECT_GT(picture.colours, 10u) << entry.path() << ": is anything drawn?";
    EXPECT_GT(picture.drawn, 0.01) << entry.path() << ": is anything drawn?";
  }

  const auto csv = content(folder / "results.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), static_cast<int64_t>(wanted.size()) + 1) << csv;
  const auto summary = content(folder / "visualizations" / "summary.txt");
  EXPECT_NE(summary.find("peak memory"), std::string::npos) << summary;
  const auto said = text("preset ", expected.preset, " at scale small");
  for (const auto* where : {&summary, &ran.output}) {
    EXPECT_NE(where->find(said), std::string::npos) << *where;
    EXPECT_NE(where->find(expected.model), std::string::npos) << *where;
    EXPECT_NE(where->find(" M parameters"), std::string::npos) << *where;
  }
  for (const auto& name : expected.results)  // and the same on the terminal, at the end
    EXPECT_NE(ran.output.find(name), std::string::npos) << name << " is not in\n" << ran.output;

  const auto page = content(folder / "report.html");
  EXPECT_NE(page.find("<svg"), std::string::npos);
  const std::regex loads(
      R"re((src|href)\s*=\s*["']?(https?:)?//|url\(\s*["']?(https?:)?//|@import|fetch\(|XMLHttpRequest)re");
  std::smatch found_load;
  EXPECT_FALSE(std::regex_search(page, found_load, loads)) << "the page loads " << found_load.str();
}

INSTANTIATE_TEST_SUITE_P(All, Presets, testing::ValuesIn(expectations()), [](const auto& one) {
  auto name = one.param.preset;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(PresetList, IsWhatIsTested) {
  std::set<std::string> known, tested;
  for (const auto& preset : presets()) known.insert(preset.name);
  for (const auto& expected : expectations()) tested.insert(expected.preset);
  EXPECT_EQ(known, tested) << "a preset without a test";
}

}  // namespace
}  // namespace shade::measure
