// Nothing that shade train does is unprotected, random or synthetic by accident: commands that once ended with exit
// status 0 and no warning are refused with a remedy, or do what they say and announce it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "shade/base/json.h"
#include "tests/io/scratch.h"
#include "tests/support/process.h"

namespace shade::cli {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class Accident : public testing::Test {
 protected:
  std::string place(const std::string& name) const { return (scratch_.path() / name).string(); }

  // One small step, in a run directory of its own unless one is named.
  test::Outcome train(Words words) {
    Words all{"--steps",       "1",
              "--batch-size",  "8",
              "--seq-length",  "16",
              "--micro-batch", "8",
              "--threads",     "1",
              "--peak-gflops", "100",
              "--output",      place("run" + std::to_string(++runs_))};
    words.insert(words.begin(), all.begin(), all.end());
    words.insert(words.begin(), {test::shade_binary(), "train"});
    return test::run(words);
  }
  test::Outcome train_synthetic(Words words) {
    words.insert(words.begin(), {"--model", "llama-nano", "--from-scratch", "--synthetic", "--records", "40"});
    return train(words);
  }
  bool has_ledger() const { return fs::exists(place("run" + std::to_string(runs_)) + "/ledger"); }  // of the last run

  void expect_said(const test::Outcome& seen, const std::string& words) {
    EXPECT_EQ(seen.status, 0) << seen.output;
    EXPECT_NE(seen.output.find(words), std::string::npos) << words << "\n" << seen.output;
  }
  void expect_refused(const test::Outcome& seen, const std::string& words) {
    EXPECT_EQ(seen.status, 2) << seen.output;
    EXPECT_NE(seen.output.find(words), std::string::npos) << words << "\n" << seen.output;
  }

  // A model's folder with weights.
  std::string model(const std::string& vocabulary = "260") {
    const auto folder = place("model" + vocabulary);
    if (!fs::exists(folder))
      expect_said(train_synthetic({"--vocab-size", vocabulary, "--steps", "0", "--seed", "7", "--export", folder}),
                  "finished");
    return folder;
  }
  std::string texts() const {
    fs::create_directories(place("texts"));
    std::ofstream out(place("texts/a.jsonl"));
    for (int i = 0; i < 40; ++i)
      out << Json{{"text", text("record ", i)}, {"label", i % 2 == 0 ? "sea" : "hill"}} << "\n";
    return place("texts");
  }

  io::Scratch scratch_;
  int runs_ = 0;
};

TEST_F(Accident, AWrongFileIsReportedOnceForAllRanks) {
  scratch_.write("bad.jsonl", "{\"text\": \"a\"}\n{\"text\": 3}\n");
  const auto seen = train(
      {"--model", "llama-nano", "--from-scratch", "--task", "lm", "--data-folder", place("bad.jsonl"), "--ranks", "2"});
  EXPECT_EQ(seen.status, 1) << seen.output;
  const auto at = seen.output.find("bad.jsonl:2: 'text' must be a string");
  ASSERT_NE(at, std::string::npos) << seen.output;
  EXPECT_EQ(seen.output.find("bad.jsonl", at + 1), std::string::npos) << seen.output;
}

TEST_F(Accident, SettingsOfPrivacyMakeTheRunPrivate) {
  expect_said(train_synthetic({"--sigma", "1", "--max-grad-norm", "1", "--delta", "1e-3"}),
              "private: sigma was given\n");
  EXPECT_TRUE(has_ledger());
  for (const Words& setting :
       {Words{"--target-epsilon", "8"}, {"--delta", "1e-3"}, {"--keep-key"}, {"--clip-style", "flat"}}) {
    expect_said(train_synthetic(setting), "private: ");
    EXPECT_TRUE(has_ledger()) << setting[0];
  }
  expect_said(train_synthetic({"--sigma", "1", "--dp", "none"}), "privacy  none: dp is none, and sigma has no effect");
  EXPECT_FALSE(has_ledger());
  expect_said(train_synthetic({"--sigma", "1", "--warmup-steps", "2"}),
              "the first step of the warm-up has a learning rate of 0");
  EXPECT_EQ(train_synthetic({"--warmup-steps", "2"}).output.find("learning rate of 0"), std::string::npos);
  expect_said(train_synthetic({"--max-grad-norm", "0.5"}), "ordinary gradient clipping at 0.5");
  EXPECT_FALSE(has_ledger());
  const auto recipe = scratch_.write("recipe.toml", "[dp]\nsigma = 1.0\ndelta = 1e-3\n").string();
  expect_said(train_synthetic({recipe}), "private: sigma was given");
}

// A line of a recipe, or of the recipe.toml of a plain run, which has every field, doesn't outweigh the command line.
TEST_F(Accident, PrivacyOnTheCommandLineIsNotSilencedByTheRecipe) {
  expect_said(train_synthetic({}), "privacy  none");
  const auto written = place("run" + std::to_string(runs_)) + "/recipe.toml";
  const auto stated = scratch_.write("none.toml", "[dp]\ndp = \"none\"\nsigma = 1.0\n").string();
  for (const auto& recipe : {stated, written}) {
    for (const Words& setting : {Words{"--sigma", "1"},
                                 {"--delta", "1e-3"},
                                 {"--privacy-unit", "record"},
                                 {"--target-epsilon", "8"},
                                 {"--noise-seed", "1"},
                                 {"--keep-key", "true"}}) {
      expect_refused(train_synthetic({recipe, setting[0], setting[1]}),
                     "the recipe says dp = none and " + setting[0] +
                         " was given on the command line; add --dp auto for a private run or drop " + setting[0]);
      EXPECT_FALSE(fs::exists(place("run" + std::to_string(runs_)))) << setting[0];
    }
    expect_said(train_synthetic({recipe, "--sigma", "1", "--delta", "1e-3", "--dp", "auto"}),
                "private: --dp auto was given");
    expect_said(train_synthetic({recipe, "--sigma", "1", "--dp", "none"}), "dp is none, and sigma has no effect");
    expect_said(train_synthetic({recipe}), "privacy  none: dp is none");
  }
}

TEST_F(Accident, SigmaAndTargetEpsilonAreRefused) {
  expect_refused(train_synthetic({"--sigma", "2", "--target-epsilon", "8"}),
                 "sigma 2 and target_epsilon 8 are both set");
}

TEST_F(Accident, WeightsOfTheModelsFolderAreLoaded) {
  expect_said(train({"--model", model(), "--synthetic", "--steps", "0", "--export", place("same")}),
              "weights  from " + model());
  const auto content = [&](const std::string& folder) { return io::content(folder + "/model.safetensors"); };
  EXPECT_EQ(content(place("same")), content(model()));
  expect_said(train({"--model", model(), "--synthetic", "--steps", "0", "--from-scratch", "--export", place("new")}),
              "weights  random (from scratch, seed 0)");
  EXPECT_NE(content(place("new")), content(model()));
  expect_refused(train({"--model", "llama-nano", "--synthetic"}), "ask for random ones (--from-scratch)");
  fs::remove(model() + "/model.safetensors");
  expect_refused(train({"--model", model(), "--synthetic"}), "has a config.json, and no model.safetensors");
  expect_refused(train({"--model", model(), "--synthetic", "--from-scratch", "--weights", "x"}), "drop one of them");
}

TEST_F(Accident, TheModelsTokenizerIsUsed) {
  const auto folder = model("1440");
  expect_refused(train({"--model", folder, "--data-folder", texts()}),
                 "a pretrained model with a vocabulary of 1440 would read bytes");
  expect_said(train({"--model", folder, "--data-folder", texts(), "--tokenizer", "bytes"}),
              "tokens   every byte is a token");
  for (const auto* name : {"tokenizer.json", "tokenizer_config.json"})
    if (const auto file = test::source_root() + "/tests/golden/tokenizer_llama3/" + name; fs::exists(file))
      fs::copy_file(file, folder + "/" + name);
  expect_said(train({"--model", folder, "--data-folder", texts()}), "tokens   tokenizer in " + folder);
  expect_said(train({"--model", model(), "--data-folder", texts()}), "data     " + texts() + ": 40 records");
}

TEST_F(Accident, SomethingElseThanARecipeIsRefused) {
  expect_refused(train({scratch_.path().string()}), "is a folder, and a TOML file is expected here");
  expect_refused(train({scratch_.write("empty.toml", "").string()}), "sets nothing");
  expect_refused(train({scratch_.write("steps.toml", "[train]\nsteps = 3\n").string()}), "no model to train");
  expect_refused(train({}), "name a recipe (shade train RECIPE.toml)");
}

TEST_F(Accident, SyntheticDataIsAskedFor) {
  expect_refused(train({"--model", "llama-nano", "--from-scratch"}), "ask for synthetic data with --synthetic");
  expect_refused(train_synthetic({"--data-folder", texts()}), "synthetic data is asked for, and so is the data folder");
  expect_said(train_synthetic({}), "40 synthetic records");
}

TEST_F(Accident, ALoraTargetMatchesALayer) {
  expect_refused(train_synthetic({"--lora-rank", "2", "--lora-targets", "q_proj,nonsense"}),
                 "LoRA target 'nonsense' matches no linear layer; expected some of q_proj, k_proj, v_proj, o_proj, "
                 "gate_proj, up_proj, down_proj");
  expect_refused(train_synthetic({"--lora-rank", "2", "--lora-targets", "q_prj"}), "did you mean 'q_proj'?");
  expect_refused(train_synthetic({"--lora-rank", "2", "--lora-targets", ""}), "LoRA adapters have no target");
}

TEST_F(Accident, ALengthBeyondTheModelsPositionsIsRefused) {
  auto config = read_json(model() + "/config.json");
  config["max_position_embeddings"] = 16;
  write_json(model() + "/config.json", config);
  expect_said(train({"--model", model(), "--synthetic"}), "finished");
  expect_refused(train({"--model", model(), "--synthetic", "--seq-length", "17"}),
                 "--seq-length 17 is longer than the 16 positions of the model");
}

TEST_F(Accident, ABatchLargerThanTheDataIsRefused) {
  expect_said(train_synthetic({"--batch-size", "38", "--eval-records", "2"}), "finished");
  expect_refused(train_synthetic({"--batch-size", "39", "--eval-records", "2"}),
                 "--batch-size 39 is larger than the data, which has 38 records for training");
}

TEST_F(Accident, ARunInTheModelsFolderIsRefused) {
  for (const auto& folder : {model() + "/runs/x", model(), scratch_.path().string()})
    expect_refused(train({"--model", model(), "--synthetic", "--output", folder}), "one contains the other");
  EXPECT_FALSE(fs::exists(model() + "/runs"));
  expect_refused(train({"--weights", model(), "--model", "llama-nano", "--vocab-size", "260", "--synthetic", "--export",
                        model() + "/x"}),
                 "--export " + model() + "/x and the model's folder");
}

TEST_F(Accident, APrivateRunStatesItsClasses) {
  const Words labelled{"--model", "llama-nano", "--vocab-size",  "260",   "--from-scratch", "--task", "classify",
                       "--dp",    "auto",       "--data-folder", texts(), "--test-folder",  texts()};
  const auto with = [&](const Words& more) {
    auto words = labelled;
    words.insert(words.end(), more.begin(), more.end());
    return train(words);
  };
  const auto unstated = with({});
  expect_refused(unstated, "a private run on labelled records must be given its classes");
  EXPECT_EQ(unstated.output.find("hill"), std::string::npos) << "labels that occur are not said: " << unstated.output;
  EXPECT_FALSE(fs::exists(texts() + "/.shade")) << "refused before the data is read";
  expect_said(with({"--classes", "wood,hill,sea", "--export", place("exported")}), "finished");
  EXPECT_EQ(read_json(place("exported/config.json"))["id2label"], (Json{{"0", "wood"}, {"1", "hill"}, {"2", "sea"}}));
  expect_refused(with({"--classes", "a,b,c,hill,sea", "--num-classes", "3"}), "5 classes, the model 3");
  expect_said(with({"--classes", "@" + scratch_.write("classes", "sea\nhill\n").string()}), "finished");

  fs::create_directories(place("other"));
  scratch_.write("other/a.jsonl", "{\"text\": \"x\", \"label\": \"aaa-john-doe\"}\n");
  expect_refused(with({"--classes", "hill,sea", "--test-folder", place("other")}), "the label 'aaa-john-doe'");
  expect_refused(with({"--classes", "hill,sea", "--data-folder", place("other")}), "the label 'aaa-john-doe'");
  expect_said(with({"--dp", "none"}), "2 classes");
}

// An option took the effect of a field of the recipe away; the run's own recipe states that field.
TEST_F(Accident, ARecipeThatARunWroteTrainsAgain) {
  const auto recipe = scratch_.write("packed.toml", "[data]\npacking = \"packed\"\n").string();
  expect_refused(train_synthetic({recipe}), "data.packing has no effect without --data-folder");
  expect_said(train_synthetic({recipe, "--data-folder="}), "finished");
  const auto written = place("run" + std::to_string(runs_)) + "/recipe.toml";
  expect_said(test::run({test::shade_binary(), "train", written, "--output", place("again")}), "finished");
}

TEST_F(Accident, PackedPrivateDataNeedsTheWindowAsUnit) {
  const Words packed{"--model", "llama-nano", "--vocab-size", "260",           "--from-scratch", "--dp",
                     "auto",    "--packing",  "packed",       "--data-folder", texts()};
  expect_refused(train(packed), "--privacy-unit window");
  auto stated = packed;
  stated.insert(stated.end(), {"--privacy-unit", "window", "--json", place("result.json")});
  expect_said(train(stated), "neighbouring data sets: add or remove one window");
  EXPECT_EQ(read_json(place("result.json"))["adjacency"], "add or remove one window");
}

}  // namespace
}  // namespace shade::cli
