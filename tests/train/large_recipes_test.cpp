// The large recipes as they are shipped, on two ranks: their widths, types, sharding, clipping, packing and files, but
// one or two layers, short texts and a few records. A run is ended by SIGTERM after its first save and goes on.
#include <gtest/gtest.h>

#include <filesystem>

#include "shade/base/json.h"
#include "tests/data/folder.h"
#include "tests/data/image_files.h"
#include "tests/support/process.h"
#include "tests/train/remains.h"

namespace shade::train {
namespace {

using test::shade_binary;

constexpr int kSteps = 10;
const test::RunOptions kPatient{.limit = Seconds(900)};

class LargeRecipe : public testing::Test {
 protected:
  void SetUp() override {
    const auto room = std::filesystem::space(scratch_.path()).available;
    if (room < 4'000'000'000)
      GTEST_SKIP() << scratch_.path() << " has " << room << " bytes left; 4 GB are needed, set TMPDIR";
  }

  std::string place(const char* name) const { return (scratch_.path() / name).string(); }

  void write_weights(const std::string& model, const std::string& layers, const std::string& vocabulary) {
    const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "random_checkpoint";
    const auto seen = test::run({program.string(), model, place("weights"), layers, vocabulary}, kPatient);
    ASSERT_EQ(seen.status, 0) << seen.output;
  }

  std::string command(const std::string& recipe, const std::string& more) const {
    return text(shade_binary(), " train ", test::source_root(), "/recipes/", recipe, " --ranks 2 --output ",
                place("run"), " --steps ", kSteps,
                " --save-every 1 --log-every 1 --keep 1 --eval-rate 0.1 --eval-records 0 --eval-every ", kSteps,
                " --warmup-steps 2 --peak-gflops 100 ", more);
  }

  // Interrupted after the first save.
  void run(const std::string& recipe, const std::string& more) {
    const auto first =
        test::run({"sh", "-c", text(when_saved(place("run"), "TERM"), "exec ", command(recipe, more))}, kPatient);
    ASSERT_EQ(first.status, 0) << first.output;
    EXPECT_NE(first.output.find("asked to stop after step "), std::string::npos) << first.output;
    const auto second = test::run({"sh", "-c", command(recipe, more)}, kPatient);
    ASSERT_EQ(second.status, 0) << second.output;
    EXPECT_NE(second.output.find("continued after step "), std::string::npos) << second.output;
    EXPECT_EQ(second.output.find(text("continued after step ", kSteps)), std::string::npos) << "nothing was left to do";
    EXPECT_NE(second.output.find(text("finished after step ", kSteps)), std::string::npos) << second.output;
    std::printf("%s", second.output.c_str());
    check_metrics();
  }

  // Each step is told once, with a finite loss; nothing was thrown away as not finite.
  void check_metrics() const {
    int64_t steps = 0;
    for (const auto& json : read_metrics(place("run"))) {
      const auto& own = json.contains("not_private") ? json["not_private"] : json;
      if (!own.contains("step_ms")) continue;
      EXPECT_EQ(json["step"], ++steps);
      EXPECT_TRUE(own["loss"].is_number()) << json;
      EXPECT_EQ(own.value("not_finite", 0), 0) << json;
    }
    EXPECT_EQ(steps, kSteps);
  }

  data::Folder scratch_;
};

TEST_F(LargeRecipe, Llama3LoraPrivate) {
  write_weights("llama3.1-8b", "1", "16384");
  run("llama3_8b_lora.toml", text("--num-layers 1 --vocab-size 16384 --weights ", place("weights"), " --tokenizer ",
                                  test::source_root(), "/tests/golden/tokenizer_llama3 --data-folder ", place("texts"),
                                  " --sample-corpus 64KiB --seq-length 64 --batch-size 4 --delta 1e-3"));
}

TEST_F(LargeRecipe, Llama3LoraPrivateOnConversations) {
  write_weights("llama3.1-8b", "2", "16384");
  std::string lines;
  for (int i = 0; i < 48; ++i)
    lines += Json{{"messages",
                   {{{"role", "system"}, {"content", "Answer in one word."}},
                    {{"role", "user"}, {"content", text("Which pier is ship ", i, " at?")}},
                    {{"role", "assistant"}, {"content", text("Pier ", i * 7 % 10)}}}}}
                 .dump() +
             "\n";
  scratch_.put("chats/chats.jsonl", lines);
  run("llama3_8b_chat_lora.toml",
      text("--num-layers 2 --vocab-size 16384 --weights ", place("weights"), " --tokenizer ", test::source_root(),
           "/tests/golden/tokenizer_llama3 --chat-template llama3.1 --data-folder ", place("chats"),
           " --seq-length 64 --batch-size 4 --delta 1e-3"));
}

TEST_F(LargeRecipe, Qwen2AllWeights) {
  write_weights("qwen2-1.5b", "2", "0");  // 0: its own
  run("qwen2_1.5b_zero3.toml", text("--num-layers 2 --weights ", place("weights"), " --tokenizer ", test::source_root(),
                                    "/tests/golden/tokenizer_qwen2 --data-folder ", place("texts"),
                                    " --sample-corpus 64KiB --seq-length 128 --batch-size 4"));
}

TEST_F(LargeRecipe, DitPrivateOnImages) {
  for (int i = 0; i < 24; ++i) {
    auto pixels = data::gradient(300, 260, 3);
    for (size_t at = 0; at < pixels.size(); ++at) pixels[at] = static_cast<unsigned char>(pixels[at] + 9 * i);
    scratch_.put(text("images/class_", i % 3, "/", i, i % 2 == 0 ? ".jpg" : ".png"),
                 i % 2 == 0 ? data::jpeg(300, 260, 3, pixels) : data::png(300, 260, PNG_FORMAT_RGB, pixels));
  }
  run("dit_l.toml", text("--num-layers 2 --data-folder ", place("images"),
                         " --classes class_0,class_1,class_2 --batch-size 4 --delta 1e-3"));
}

}  // namespace
}  // namespace shade::train
