// shade train as a user meets it: its lines and files, an end by signal, a lost rank.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "shade/base/json.h"
#include "tests/io/scratch.h"
#include "tests/report/picture.h"
#include "tests/support/process.h"
#include "tests/train/remains.h"

namespace shade::cli {
namespace {

using io::Scratch;
using test::run;
using test::shade_binary;
using train::when_saved;

// Long enough to be interrupted, short enough for a busy machine.
const test::RunOptions kPatient{.limit = Seconds(200)};

constexpr const char* kRecipe = R"(
[model]
model = "llama-nano"
from_scratch = true
task = "lm"
[dp]
dp = "flash_bookkeeping"
target_epsilon = 8
[optim]
lr = 1e-2
[train]
steps = 120
batch_size = 8
seq_length = 16
synthetic = true
records = 200
micro_batch = "8"
save_every = 10
log_every = 50
threads = 1
peak_gflops = 100
)";

bool says(const test::Outcome& seen, const std::string& words) { return seen.output.find(words) != std::string::npos; }

TEST(Train, WritesARunDirectory) {
  const Scratch scratch;
  const auto recipe = scratch.write("recipe.toml", kRecipe).string();
  const auto folder = scratch.path() / "run";
  const auto result = (scratch.path() / "result.json").string();
  const auto seen = run({shade_binary(), "train", recipe, "--output", folder.string(), "--train.steps", "20", "--json",
                         result, "--log-every", "5", "--keep-key"});
  ASSERT_EQ(seen.status, 0) << seen.output;
  EXPECT_TRUE(says(seen, "step 20/20  lr ")) << seen.output;
  EXPECT_TRUE(says(seen, " | not private: loss "));
  EXPECT_TRUE(says(seen, "the noise key stays in ")) << seen.output;
  EXPECT_TRUE(says(seen, "epsilon 7.9996 at delta 1e-05 after 20 steps")) << seen.output;
  EXPECT_FALSE(says(seen, "seeded"));
  for (const char* file : {"recipe.toml", "metrics.jsonl", "ledger", "key", "checkpoints/LATEST"})
    EXPECT_TRUE(std::filesystem::exists(folder / file)) << file;
  const auto json = read_json(result);
  EXPECT_EQ(json["steps"], 20);
  EXPECT_LE(json["epsilon"], 8.0);
  EXPECT_TRUE(json["not_private"].contains("loss"));
  // What was resolved is a recipe too: sigma is in it.
  EXPECT_NE(io::content(folder / "recipe.toml").find("sigma = "), std::string::npos);
  // The key is nowhere else.
  const auto key = io::content(folder / "key");
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder))
    if (file.is_regular_file() && file.path().filename() != "key") {
      EXPECT_EQ(io::content(file.path()).find(key), std::string::npos) << file.path();
    }
  const auto again = run({shade_binary(), "train", recipe, "--output", folder.string(), "--train.steps", "20"});
  ASSERT_EQ(again.status, 0) << again.output;
  EXPECT_TRUE(says(again, "the noise key was deleted")) << again.output;
  EXPECT_FALSE(std::filesystem::exists(folder / "key"));
}

// Of runs without a recipe and an --output.
TEST(Train, AnExperimentHasADirectoryOfItsOwn) {
  const Scratch scratch;
  const auto train = [&](const std::string& more) {
    const auto seen = run({"sh", "-c",
                           text("cd '", scratch.path().string(), "' && '", shade_binary(),
                                "' train --model llama-nano --from-scratch --synthetic --records 16 --batch-size 4 "
                                "--micro-batch 4 --seq-length 8 --threads 1 --peak-gflops 100 ",
                                more)},
                          kPatient);
    EXPECT_EQ(seen.status, 0) << seen.output;
    return seen;
  };
  const auto directories = [&] {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(scratch.path() / "runs"))
      out.push_back(entry.path().filename().string());
    return out;
  };
  train("--steps 1");
  ASSERT_EQ(directories().size(), 1u);
  EXPECT_TRUE(directories().front().starts_with("llama-nano-synthetic-")) << directories().front();
  EXPECT_TRUE(says(train("--steps 2"), "continued after step 1")) << "more steps of the same run";
  EXPECT_TRUE(says(train("--steps 2 --ranks 2 --shard ddp"), "continued after step 2")) << "ranks are no setting of it";
  EXPECT_EQ(directories().size(), 1u);
  for (const auto* other : {"--lr 0.5", "--batch-size 8", "--sigma 1 --delta 1e-2", "--sigma 2 --delta 1e-2"})
    EXPECT_TRUE(says(train(text("--steps 1 ", other)), "from the beginning")) << other;
  EXPECT_EQ(directories().size(), 5u);
}

TEST(Train, ReportDrawsItsRuns) {
  if (run({"sh", "-c", "command -v gnuplot"}).status != 0) GTEST_SKIP() << "gnuplot is not installed";
  const Scratch scratch;
  const auto recipe = scratch.write("recipe.toml", kRecipe).string();
  const auto folder = [&](const char* name) { return (scratch.path() / name).string(); };
  const auto train = [&](const char* name, std::vector<std::string> more) {
    std::vector<std::string> command{shade_binary(), "train", recipe,         "--output", folder(name),  "--steps", "6",
                                     "--eval-rate",  "0.1",   "--eval-every", "2",        "--log-every", "1"};
    command.insert(command.end(), more.begin(), more.end());
    const auto seen = run(command, kPatient);
    ASSERT_EQ(seen.status, 0) << seen.output;
  };
  train("open", {"--dp", "none", "--target-epsilon", "0", "--sampler", "shuffled"});
  train("secret", {});
  const auto seen = run({shade_binary(), "report", folder("open"), "--line", "5.55=uniform", folder("secret"), "--line",
                         "4", "--output-dir", folder("out"), "--json", folder("out.json")});
  ASSERT_EQ(seen.status, 0) << seen.output;
  EXPECT_TRUE(says(seen, "secret")) << seen.output;
  EXPECT_TRUE(says(seen, "at delta 1e-05")) << seen.output;
  const auto json = read_json(folder("out.json"));
  ASSERT_EQ(json["runs"].size(), 2u);
  for (const auto& one : json["runs"]) {
    EXPECT_EQ(one["loss"].size(), 6u) << one;
    EXPECT_EQ(one["held_out_loss"].size(), 3u) << one;
    EXPECT_EQ(one["epsilon"].size(), one["name"] == "secret" ? 6u : 0u) << one;
  }
  std::map<std::string, std::string> facts;
  for (const auto& fact : json["facts"]) facts[fact["about"]] = fact["text"];
  for (const auto* about : {"date", "host", "processor", "versions"}) EXPECT_NE(facts[about], "") << about;
  const auto command = json["runs"][0].value("command", "");
  EXPECT_TRUE(command.starts_with("shade train .../recipe.toml --output .../open --steps 6")) << command;
  EXPECT_FALSE(json["runs"][1].contains("command")) << "of a private run it stays with the owner";
  std::map<std::string, Json> settings;
  for (const auto& group : json["settings"])
    for (const auto& one : group["settings"]) settings[one["setting"]] = one["values"];
  for (const auto* setting : {"dp.sigma", "dp.max_grad_norm", "dp.delta", "dp.accountant"}) {
    ASSERT_EQ(settings[setting].size(), 2u) << setting;
    EXPECT_EQ(settings[setting][0], "does not apply") << setting << " of a run without privacy";
    EXPECT_NE(settings[setting][1], "does not apply") << setting;
  }
  EXPECT_EQ(settings["optim.lr"][0], settings["optim.lr"][1]);
  EXPECT_EQ(json["runs"][0]["statement"], Json::array());
  const auto statement = json["runs"][1]["statement"];
  EXPECT_TRUE(statement.at(0).get<std::string>().starts_with("epsilon ")) << statement;
  EXPECT_TRUE(statement.back().get<std::string>().starts_with("not covered: ")) << statement;
  EXPECT_NE(io::content(scratch.path() / "out/report.html").find("shade train .../recipe.toml"), std::string::npos);
  const auto picture = test::decode_picture(scratch.path() / "out/visualizations/training.png");
  EXPECT_EQ(picture.width, 1000u);
  for (const uint32_t colour : {0x1f77c9u, 0xd55e00u})
    EXPECT_GT(picture.count(colour), 60u) << colour;  // a private curve is long or short

  const auto fault = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {shade_binary(), "report"});
    const auto outcome = run(words);
    EXPECT_EQ(outcome.status, 2) << outcome.output;
    return outcome.output;
  };
  EXPECT_NE(fault({folder("open"), "--line", "high=x"}).find("doesn't begin with a number"), std::string::npos);
  EXPECT_NE(fault({folder("open"), scratch.path().string()}).find("has no metrics.jsonl"), std::string::npos);
  EXPECT_NE(fault({scratch.path().string(), "--line", "4"}).find("--line is for runs of shade train"),
            std::string::npos);
}

class Asked : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(By, Asked, testing::Values("TERM", "INT"));

TEST_P(Asked, ASignalSavesAndTheSameCommandGoesOn) {
  const Scratch scratch;
  const auto recipe = scratch.write("recipe.toml", kRecipe).string();
  const auto folder = scratch.path() / "run";
  const auto command =
      text(shade_binary(), " train ", recipe, " --output ", folder.string(), " --ranks 2 --shard zero3");
  const auto first = run({"sh", "-c", when_saved(folder, GetParam()) + "exec " + command}, kPatient);
  EXPECT_EQ(first.status, 0) << first.output;
  EXPECT_TRUE(says(first, "asked to stop after step ")) << first.output;
  const auto second = run({"sh", "-c", command}, kPatient);
  EXPECT_EQ(second.status, 0) << second.output;
  EXPECT_TRUE(says(second, "continued after step ")) << second.output;
  EXPECT_TRUE(says(second, "finished after step 120")) << second.output;
  EXPECT_TRUE(says(second, " (metrics.jsonl, TensorBoard events, checkpoints)") && says(second, "; took "))
      << second.output;
  EXPECT_TRUE(says(second, " left\n")) << second.output;
}

TEST(Train, ALostRankIsStartedAgainAlsoWithFewer) {
  for (const std::string fewer : {"", "--min-nproc 1 "}) {
    const Scratch scratch;
    const auto recipe = scratch.write("recipe.toml", kRecipe).string();
    const auto folder = scratch.path() / "run";
    const auto script = text("if [ $TORCHELASTIC_RESTART_COUNT = 0 -a $RANK = 1 ]; then ", when_saved(folder, "KILL"),
                             "fi; exec ", shade_binary(), " train ", recipe, " --shard ddp --output ", folder.string());
    const auto seen =
        run({"sh", "-c", text(shade_binary(), " launch -n 2 --max-restarts 1 ", fewer, "-- sh -c '", script, "'")},
            kPatient);
    EXPECT_EQ(seen.status, 0) << seen.output;
    EXPECT_TRUE(says(seen, "killed by signal 9 (SIGKILL)")) << seen.output;
    EXPECT_TRUE(says(seen, fewer.empty() ? "restart 1 of 1 with 2 ranks" : "restart 1 of 1 with 1 rank"))
        << seen.output;
    EXPECT_TRUE(says(seen, "continued after step ")) << seen.output;
    // Steps that were lost are made again and count once. With other ranks they can't be made again to the bit: they
    // count again, and the budget ends the run earlier by as many (none, if the rank was lost right after a save).
    EXPECT_TRUE(says(seen, "finished after step 120") || (!fewer.empty() && says(seen, "budget spent after step ")))
        << seen.output;
    EXPECT_EQ(train::spent(folder), 120);
  }
}

// Records are loaded while the step before computes. The first step has none before it.
TEST(Train, RecordsAreThereWhenAStepBegins) {
  const Scratch scratch;
  const auto folder = scratch.path() / "run";
  const auto seen = run({shade_binary(), "train", test::source_root() + "/recipes/qwen2_nano.toml", "--ranks", "2",
                         "--output", folder.string(), "--data-folder", (scratch.path() / "texts").string(),
                         "--train.sample-corpus", "2MiB", "--steps", "40", "--log-every", "1", "--eval-records", "0"},
                        kPatient);
  ASSERT_EQ(seen.status, 0) << seen.output;
  double waited = 0, loaded = 0, took = 0;
  for (const auto& json : train::read_metrics(folder)) {
    if (json["step"] == 1) continue;
    waited += json["data_ms"].get<double>();
    loaded += json["load_ms"].get<double>();
    took += json["step_ms"].get<double>();
  }
  std::printf("waiting %.3f %%, loading %.3f %% of %.1f ms of steps\n", 100 * waited / took, 100 * loaded / took, took);
  EXPECT_GT(took, 0);
  EXPECT_GT(loaded, 0);
  EXPECT_LT(waited, 0.1 * took);
}

TEST(Train, FaultsAreExplained) {
  const Scratch scratch;
  const auto recipe = scratch.write("recipe.toml", "[train]\nstep = 3\n").string();
  const auto seen = run({shade_binary(), "train", recipe});
  EXPECT_EQ(seen.status, 2);
  EXPECT_TRUE(says(seen, "unknown key 'train.step'; did you mean 'train.steps'?")) << seen.output;
  EXPECT_EQ(run({shade_binary(), "train", "no-such.toml"}).status, 2);
  // The recipe brings a corpus along; a folder that was mistyped is not filled with it.
  const auto mistyped = (scratch.path() / "my_texst").string();
  const auto absent = run({shade_binary(), "train", test::source_root() + "/recipes/llama_nano.toml", "--output",
                           (scratch.path() / "run").string(), "--data-folder", mistyped});
  EXPECT_EQ(absent.status, 2);
  EXPECT_TRUE(says(absent, "no data at")) << absent.output;
  EXPECT_FALSE(std::filesystem::exists(mistyped));
}

}  // namespace
}  // namespace shade::cli
