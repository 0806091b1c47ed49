// Predicted against measured: `shade plan` and `shade bench` of the same words.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "shade/base/json.h"
#include "shade/base/strings.h"
#include "tests/io/scratch.h"
#include "tests/support/process.h"

namespace shade::test {
namespace {

using Words = std::vector<std::string>;

Json result_of(const std::string& verb, const Words& words, const std::filesystem::path& file) {
  Words command{shade_binary(), verb};
  command.insert(command.end(), words.begin(), words.end());
  command.insert(command.end(), {"--json", file.string()});
  const auto outcome = run(command);
  EXPECT_EQ(outcome.status, 0) << join(command, " ") << "\n" << outcome.output;
  return outcome.status == 0 ? read_json(file) : Json();
}

// Families x strategies x methods x types x adapters x ranks.
const std::vector<const char*> kCases{
    "--model llama-nano --task lm --dp none --ranks 1",
    "--model llama-nano --task classify --dp ghost --ranks 1 --seq 64",
    "--model llama-nano --task lm --dp flash --ranks 1 --dtype bf16",
    "--model llama-nano --task lm --dp flash_bookkeeping --ranks 1 --checkpointing block",
    "--model qwen2-nano --task lm --dp auto --ranks 1 --seq 96",
    "--model qwen2-nano --task classify --dp materialize --ranks 1 --lora-rank 4",
    "--model dit-s --hidden-dim 96 --num-layers 2 --num-heads 3 --dp bookkeeping --ranks 1",
    "--model dit-s --hidden-dim 96 --num-layers 2 --num-heads 3 --dp streaming --ranks 1 --dtype bf16",
    "--model linear --hidden-dim 256 --num-layers 3 --dp auto --ranks 1",
    "--model llama-nano --task lm --dp none --ranks 2 --shard zero3",
    "--model llama-nano --task lm --dp auto --ranks 1 --offload",
    "--model llama-nano --task lm --dp none --ranks 2 --shard zero2 --offload",
    "--model llama-nano --task lm --dp flash --ranks 2 --shard zero2 --dtype bf16",
    "--model qwen2-nano --task lm --dp auto --ranks 2 --shard zero3 --grad-accum 2",
    "--model dit-s --hidden-dim 96 --num-layers 2 --num-heads 3 --dp flash_bookkeeping --ranks 2 --shard ddp",
};

TEST(Plan, PeakMemoryAndTrafficAreThoseOfTheRun) {
  const io::Scratch here;
  for (const auto* one : kCases) {
    auto words = split(one, ' ');
    words.insert(words.end(), {"--threads", "1"});
    const auto planned = result_of("plan", words, here.path() / "plan.json").at("rows").at(0);
    words.insert(words.end(), {"--num-iter", "1"});
    const auto measured = result_of("bench", words, here.path() / "bench.json");
    const double predicted = planned.at("peak_memory_mb").get<double>();
    const double found = measured.at("peak_memory_mb").get<double>();
    // Of attention in bf16, what oneDNN copies for a tile of each thread is not planned: it differs between CPUs.
    const double copies = std::string_view(one).find("bf16") == std::string_view::npos ? 0 : 0.25;
    EXPECT_LT(std::abs(predicted - found), 0.01 * found + copies)
        << one << ": predicted " << predicted << " MiB, measured " << found << "\n"
        << planned.at("breakdown") << "\n"
        << measured.at("breakdown");
    EXPECT_EQ(planned.at("communication").at("bytes"),
              std::llround(measured.at("communication").at("bytes").get<double>()))
        << one;
  }
}

// Every method under every strategy, as a GPU would compute it, and its time.
TEST(Plan, OfAGpuHasTimes) {
  const io::Scratch here;
  const auto json = result_of("plan",
                              {"--model", "llama3-8b", "--num-layers", "2", "--dp",
                               "none,materialize,ghost,flash,bookkeeping,flash_bookkeeping,streaming,auto", "--shard",
                               "zero2,zero3", "--seq", "256", "--ranks", "64", "--device-profile", "h100-80g"},
                              here.path() / "plan.json");
  ASSERT_EQ(json.at("rows").size(), 16u);
  for (const auto& row : json.at("rows")) {
    SCOPED_TRACE(row.at("name"));
    EXPECT_GT(row.at("avg_time_ms").get<double>(), 0);
    EXPECT_GT(row.at("communication").at("bytes").get<int64_t>(), 0);
    EXPECT_TRUE(row.at("fits").get<bool>());
    // A private step computes what the step without privacy does, and norms.
    EXPECT_GE(row.at("flops").get<double>(), json.at("rows")[0].at("flops").get<double>());
    double sum = 0;
    for (const auto& [kind, mb] : row.at("breakdown").items()) sum += mb.get<double>();
    EXPECT_NEAR(sum, row.at("peak_memory_mb").get<double>(), 1e-3) << "the kinds add up";
  }
}

// A GPU gathers a unit by one collective, and one for what doesn't divide; a CPU in segments.
TEST(Plan, OfAGpuMovesWholeUnits) {
  const io::Scratch here;
  Words words{"--model", "llama3-8b", "--num-layers", "2",     "--task", "lm",      "--dp",
              "none",    "--shard",   "zero3",        "--seq", "256",    "--ranks", "64"};
  const auto gathers = [&] {
    const auto rows = result_of("plan", words, here.path() / "plan.json").at("rows");
    for (const auto& one : rows.at(0).at("communication").at("collectives"))
      if (one.at("collective") == "all_gather") return one.at("count").get<int>();
    return 0;
  };
  EXPECT_GT(gathers(), 100);
  words.insert(words.end(), {"--device-profile", "h100-80g"});
  const int whole = gathers();
  EXPECT_GT(whole, 0);
  EXPECT_LE(whole, 20);
}

// Model FLOPs (6 N per token and attention, whole) are those of the operators, but for the half of attention that a
// causal mask spares.
TEST(Plan, CountsTheFlopsOfTheModel) {
  const io::Scratch here;
  const auto row = result_of("plan",
                             {"--model", "llama3-8b", "--num-layers", "2", "--task", "lm", "--vocab-size", "8192",
                              "--seq", "512", "--dp", "none", "--device-profile", "h100-80g"},
                             here.path() / "plan.json")
                       .at("rows")
                       .at(0);
  const double counted = row.at("flops").get<double>(), model = row.at("model_flops").get<double>();
  EXPECT_GT(counted / model, 0.97);
  EXPECT_LT(counted / model, 1.05) << "the head's logits are computed again in backward";
}

TEST(Plan, OfSixteenThousandRanks) {
  const io::Scratch here;
  const auto json =
      result_of("plan",
                {"--model", "llama3-8b", "--dp", "auto", "--shard", "hsdp", "--replicate", "2048", "--seq", "1024",
                 "--batch-size", "1", "--dtype", "bf16", "--ranks", "16384", "--device-profile", "h100-80g"},
                here.path() / "plan.json");
  const auto& row = json.at("rows").at(0);
  EXPECT_EQ(row.at("num_ranks"), 16384);
  bool replicates = false;
  for (const auto& one : row.at("communication").at("collectives"))
    replicates = replicates || (one.at("collective") == "all_reduce" && one.at("axis") == "replicate");
  EXPECT_TRUE(replicates) << row.at("communication");
}

// What it recommends runs within the limit; what it says is over the limit by more than a twentieth does not.
TEST(Plan, AdviceHolds) {
  const io::Scratch here;
  const Words common{"--model", "llama-nano", "--task", "lm", "--seq", "64", "--ranks", "2", "--threads", "1"};
  auto words = common;
  words.insert(words.end(), {"--dp", "flash,auto", "--advise", "--memory-limit", "640KiB"});
  const double limit = 640.0 / 1024;  // MiB
  const auto advice = result_of("plan", words, here.path() / "advice.json");
  const auto peak = [&](const Json& settings, int64_t batch) {
    auto run = common;
    for (const auto& [option, value] : settings.items())
      run.insert(run.end(), {"--" + option, value.get<std::string>()});
    run.insert(run.end(), {"--batch-size", std::to_string(batch), "--num-iter", "1"});
    return result_of("bench", run, here.path() / "bench.json").at("peak_memory_mb").get<double>();
  };
  std::map<std::string, int> seen;
  for (const auto& row : advice.at("rows")) {
    const auto verdict = row.at("verdict").get<std::string>();
    const bool recommended = row.at("name") == advice.at("recommended").at("name");
    const bool far = verdict == "over" && row.at("peak_memory_mb").get<double>() > 1.05 * limit;
    if (!recommended && (!far || seen[verdict] > 0)) continue;
    ++seen[verdict];
    const double found = peak(row.at("settings"), row.at("batch_size"));
    EXPECT_EQ(found <= limit, recommended) << row << "\nmeasured " << found;
  }
  EXPECT_EQ(seen, (std::map<std::string, int>{{"front", 1}, {"over", 1}}));
  EXPECT_GE(advice.at("largest_batch_size").get<int64_t>(), advice.at("rows")[0].at("batch_size").get<int64_t>());
  EXPECT_GE(advice.at("largest_seq_length").get<int64_t>(), 64);
}

// On hosts of two devices: which strategy is fastest at which bandwidth between them, and a table for a spreadsheet.
TEST(Plan, AdviceForADeviceSaysWhereStrategiesCross) {
  const io::Scratch here;
  const auto table = here.path() / "advice.csv";
  const auto advice = result_of("plan",
                                {"--model", "llama3.2-1b", "--seq", "512", "--ranks", "16", "--dp", "auto", "--dtype",
                                 "bf16", "--shard", "zero2,zero3,hsdp", "--advise", "--device-profile", "h100-80g",
                                 "--memory-limit", "70GiB", "--csv", table.string()},
                                here.path() / "advice.json");
  const auto& crossing = advice.at("by_bandwidth");
  EXPECT_EQ(crossing.at("link"), "network");
  ASSERT_FALSE(crossing.at("ranges").empty());
  auto from = crossing.at("ranges")[0].at("from_bytes_per_second");
  for (const auto& range : crossing.at("ranges")) {
    EXPECT_EQ(range.at("from_bytes_per_second"), from) << crossing;
    EXPECT_LT(from.get<double>(), range.at("to_bytes_per_second").get<double>());
    EXPECT_FALSE(range.at("fastest").get<std::string>().empty());
    from = range.at("to_bytes_per_second");
  }
  const auto lines = split(io::content(table), '\n');
  EXPECT_TRUE(lines.at(0).starts_with("name,batch_size,peak_memory_mb,ms_per_sample,")) << lines[0];
  EXPECT_EQ(lines.size(), advice.at("rows").size() + 2) << "a header, and an end of the last line";
  EXPECT_NE(lines.at(1).find(advice.at("rows")[0].at("name").get<std::string>()), std::string::npos) << lines[1];
}

TEST(Plan, AdviceNeedsALimit) {
  const auto none = run({shade_binary(), "plan", "--model", "llama-nano", "--advise"});
  EXPECT_EQ(none.status, 2);
  EXPECT_NE(none.output.find("--memory-limit"), std::string::npos) << none.output;
  const auto tight =
      run({shade_binary(), "plan", "--model", "llama-nano", "--seq", "16", "--advise", "--memory-limit", "16KiB"});
  EXPECT_EQ(tight.status, 1);
  EXPECT_NE(tight.output.find("nothing fits"), std::string::npos) << tight.output;
  EXPECT_NE(tight.output.find("over the limit by"), std::string::npos) << tight.output;
}

TEST(Plan, SaysWhatItCannotPlan) {
  const auto ask = [](Words words) {
    words.insert(words.begin(), {shade_binary(), "plan"});
    return run(words);
  };
  const auto nothing = ask({});
  EXPECT_EQ(nothing.status, 2);
  EXPECT_NE(nothing.output.find("what is to be planned?"), std::string::npos) << nothing.output;
  EXPECT_EQ(ask({"--model", "llama-nano", "--ranks", "20000"}).status, 2);
  const auto profile = ask({"--model", "llama-nano", "--device-profile", "h1000"});
  EXPECT_EQ(profile.status, 2);
  EXPECT_NE(profile.output.find("h100-80g"), std::string::npos) << profile.output;
  // A row that a run would refuse is a result; the others are planned.
  const io::Scratch here;
  const auto file = here.path() / "rows.csv";
  const auto some = ask({"--model", "llama-nano", "--seq", "16", "--shard", "hsdp", "--replicate", "2", "--ranks",
                         "3,4", "--csv", file.string()});
  EXPECT_EQ(some.status, 1);
  EXPECT_NE(some.output.find("refused"), std::string::npos) << some.output;
  const auto lines = split(io::content(file), '\n');
  ASSERT_EQ(lines.size(), 4u) << "names, two rows, and the end of the last line";
  for (size_t row = 1; row < 3; ++row) EXPECT_NE(lines[row].find(",llama-nano,"), std::string::npos) << lines[row];
}

}  // namespace
}  // namespace shade::test
