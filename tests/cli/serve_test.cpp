// shade generate and shade eval as a user meets them, on a run and on what it exports.
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <cmath>
#include <filesystem>

#include "shade/base/files.h"
#include "shade/base/json.h"
#include "shade/base/strings.h"
#include "shade/data/image_file.h"
#include "tests/io/scratch.h"
#include "tests/support/process.h"

namespace shade::cli {
namespace {

using test::run;
using test::shade_binary;

bool says(const test::Outcome& seen, const std::string& words) { return seen.output.find(words) != std::string::npos; }

struct Serve : testing::Test {
  std::string place(const std::string& name) const { return (scratch.path() / name).string(); }
  test::Outcome shade(const std::vector<std::string>& words) const {
    return test::run_shade(words, {.limit = Seconds(120)});
  }
  void train(const std::vector<std::string>& more) const {
    std::string lines;
    for (int i = 0; i < 40; ++i)
      lines +=
          Json{{"text", i % 2 == 0 ? "sea and wave" : "hill and stone"}, {"label", i % 2 == 0 ? "wet" : "dry"}}.dump() +
          "\n";
    std::filesystem::create_directories(place("texts"));
    scratch.write("texts/a.jsonl", lines);
    std::vector<std::string> words{"train",         "--model",
                                   "llama-nano",    "--from-scratch",
                                   "--vocab-size",  "260",
                                   "--tokenizer",   "bytes",
                                   "--data-folder", place("texts"),
                                   "--seq-length",  "24",
                                   "--batch-size",  "8",
                                   "--steps",       "30",
                                   "--lr",          "1e-2",
                                   "--micro-batch", "8",
                                   "--output",      place("run"),
                                   "--export",      place("model"),
                                   "--threads",     "1"};
    words.insert(words.end(), more.begin(), more.end());
    const auto seen = shade(words);
    ASSERT_EQ(seen.status, 0) << seen.output;
  }

  io::Scratch scratch;
};

TEST_F(Serve, GeneratesFromARunAndFromItsExport) {
  train({"--task", "lm"});
  std::vector<Json> made;
  for (const auto* from : {"run", "model"}) {
    const auto seen =
        shade({"generate", place(from), "--prompt", "sea and", "--max-new-tokens", "8", "--json", place("texts.json")});
    ASSERT_EQ(seen.status, 0) << seen.output;
    EXPECT_TRUE(says(seen, "tokens/s")) << seen.output;
    made.push_back(read_json(place("texts.json"))["texts"][0]);
    EXPECT_EQ(made.back()["prompt"], "sea and");
    EXPECT_TRUE(says(seen, made.back()["text"].get<std::string>())) << seen.output;
  }
  EXPECT_EQ(made[0]["text"], " wave") << made[0];
  EXPECT_EQ(made[0], made[1]);
  EXPECT_EQ(made[0]["ended"], true);
}

TEST_F(Serve, ReadsPromptsFromAFileAndDrawsByTheSeed) {
  train({"--task", "lm"});
  const auto prompts =
      scratch.write("p.jsonl", "{\"prompt\": \"sea\"}\n\n{\"prompt\": \"hill\"}\n{\"prompt\": \"sea\"}\n").string();
  const auto texts = [&](const std::string& seed) {
    const auto seen = shade({"generate", place("run"), "--prompt-file", prompts, "--temperature", "2", "--top-p",
                             "0.99", "--seed", seed, "--max-new-tokens", "12", "--json", place("texts.json")});
    EXPECT_EQ(seen.status, 0) << seen.output;
    return read_json(place("texts.json"))["texts"];
  };
  const auto first = texts("1");
  ASSERT_EQ(first.size(), 3u);
  EXPECT_NE(first[0]["token_ids"], first[2]["token_ids"]) << "one generator draws for all prompts";
  EXPECT_EQ(first[1]["prompt"], "hill");
  EXPECT_EQ(texts("1"), first);
  EXPECT_NE(texts("2"), first);
}

// From a run and from its export, the same by seed and class; the folder is one that a run can be trained on.
TEST_F(Serve, DrawsImagesOfClasses) {
  std::filesystem::create_directories(place("images/hill"));
  std::filesystem::create_directories(place("images/sea"));
  for (int i = 0; i < 8; ++i) {
    const auto grey = at::full({8, 8, 1}, i % 2 == 0 ? 40 : 200, at::kByte);
    scratch.write(text("images/", i % 2 == 0 ? "hill/" : "sea/", i, ".png"), data::png_of(grey));
  }
  const std::vector<std::string> sizes{"--model",
                                       "dit-nano",
                                       "--from-scratch",
                                       "--image-size",
                                       "8",
                                       "--patch-size",
                                       "4",
                                       "--in-channels",
                                       "1",
                                       "--num-classes",
                                       "2",
                                       "--lr",
                                       "1e-2",
                                       "--batch-size",
                                       "8",
                                       "--micro-batch",
                                       "8",
                                       "--threads",
                                       "1"};
  auto words = sizes;
  words.insert(words.begin(), "train");
  words.insert(words.end(), {"--data-folder", place("images"), "--steps", "20", "--output", place("run"), "--export",
                             place("model")});
  const auto trained = shade(words);
  ASSERT_EQ(trained.status, 0) << trained.output;
  for (const auto* from : {"run", "model"}) {
    const auto seen =
        shade({"generate", place(from), "--output-dir", place(text("drawn_", from)), "--images-per-class", "3",
               "--num-inference-steps", "20", "--guidance-scale", "2", "--json", place("drawn.json")});
    ASSERT_EQ(seen.status, 0) << seen.output;
    EXPECT_EQ(read_json(place("drawn.json"))["images"], 6);
    EXPECT_EQ(read_json(place("drawn.json"))["classes"], (Json{"hill", "sea"}));
    EXPECT_EQ(data::read_image(place(text("drawn_", from, "/grid.png"))).sizes(), (at::IntArrayRef{18, 28, 3}));
  }
  for (const auto* name : {"00000.png", "00001.png", "00002.png"}) {
    EXPECT_NE(io::content(place(text("drawn_run/images/hill/", name))),
              io::content(place(text("drawn_run/images/sea/", name))));
    EXPECT_EQ(io::content(place(text("drawn_run/images/sea/", name))),
              io::content(place(text("drawn_model/images/sea/", name))));
  }
  const auto one = shade({"generate", place("model"), "--output-dir", place("one"), "--class-labels", "sea",
                          "--images-per-class", "1", "--num-inference-steps", "20", "--guidance-scale", "2"});
  ASSERT_EQ(one.status, 0) << one.output;
  EXPECT_EQ(io::content(place("one/images/sea/00000.png")), io::content(place("drawn_run/images/sea/00000.png")))
      << "it depends on seed and class alone";

  words = sizes;
  words.insert(words.begin(), "train");
  words.insert(words.end(), {"--data-folder", place("drawn_run/images"), "--steps", "1", "--batch-size", "6",
                             "--output", place("again")});
  const auto again = shade(words);
  EXPECT_TRUE(says(again, "images of 2 classes")) << again.output;
  EXPECT_TRUE(says(shade({"generate", place("model")}), "set --output-dir"));
  EXPECT_TRUE(says(shade({"generate", place("model"), "--prompt", "x"}), "--prompt has no effect with an image model"));
  EXPECT_TRUE(says(shade({"generate", place("model"), "--output-dir", place("one")}), "is there already"));
  EXPECT_TRUE(says(shade({"generate", place("model"), "--output-dir", place("x"), "--class-labels", "car"}),
                   "'car' is no class of the model; expected one of hill, sea, or a number from 0 to 1"));
  EXPECT_TRUE(says(shade({"eval", place("model"), "--data-folder", place("images")}), "draws images"));

  // What config.json names a class cannot lead out of the folder.
  auto config = read_json(place("model/config.json"));
  config["id2label"] = {{"0", "../hill"}, {"1", "sea"}};
  write_json(place("model/config.json"), config);
  const auto named = shade({"generate", place("model"), "--output-dir", place("named"), "--images-per-class", "1",
                            "--num-inference-steps", "2"});
  ASSERT_EQ(named.status, 0) << named.output;
  EXPECT_TRUE(std::filesystem::exists(place("named/images/0/00000.png")));
}

TEST_F(Serve, SaysWhatAPromptNeeds) {
  train({"--task", "lm"});
  EXPECT_TRUE(says(shade({"generate", place("run")}), "--prompt TEXT"));
  EXPECT_TRUE(says(shade({"generate", place("nowhere"), "--prompt", "x"}), "no such folder"));
  EXPECT_TRUE(says(shade({"generate", place("run"), "--prompt", "x", "--ranks", "2"}), "one process"));
  EXPECT_TRUE(says(shade({"generate", place("run"), "--prompt", "x", "--system", "y"}),
                   "--system has no effect without --chat"));
  EXPECT_TRUE(says(shade({"generate", place("run"), "--prompt", "x", "--top-k", "5"}),
                   "--top-k has no effect at temperature 0"));
  EXPECT_EQ(shade({"generate", place("run"), "--prompt", "x", "--chat"}).status == 0, false)
      << "bytes have no template";
}

TEST_F(Serve, EvaluatesARunAndItsExportAlike) {
  train({"--task", "classify", "--classes", "wet,dry"});  // not sorted
  std::vector<Json> found;
  for (const auto* from : {"run", "model"}) {
    const auto seen = shade({"eval", place(from), "--data-folder", place("texts"), "--json", place("scores.json"),
                             "--csv", place("scores.csv"), "--predictions", place("predictions.jsonl")});
    ASSERT_EQ(seen.status, 0) << seen.output;
    EXPECT_TRUE(says(seen, "F1 (macro)")) << seen.output;
    EXPECT_FALSE(says(seen, "not private"));
    found.push_back(read_json(place("scores.json")));
    EXPECT_EQ(io::content(place("scores.csv")).find("records,loss,accuracy,f1,majority\n40,"), 0u)
        << io::content(place("scores.csv"));
    const auto lines = split(io::content(place("predictions.jsonl")), '\n');
    ASSERT_EQ(lines.size(), 41u);
    double loss = 0;
    for (size_t i = 0; i < 40; ++i) {
      const auto line = parse_json(lines[i]);
      EXPECT_EQ(line["record"], i);
      EXPECT_EQ(line["label"], i % 2 == 0 ? "wet" : "dry");
      EXPECT_EQ(line["prediction"], line["label"]);
      EXPECT_GT(line["probability"], 0.5);
      EXPECT_NEAR(-std::log(line["probability"].get<double>()), line["loss"].get<double>(), 1e-5);
      loss += line["loss"].get<double>() / 40;
    }
    EXPECT_NEAR(loss, found.back()["loss"].get<double>(), 1e-6);
  }
  EXPECT_EQ(found[0]["records"], 40);
  EXPECT_EQ(found[0]["accuracy"], 1.0);
  EXPECT_EQ(found[0]["f1"], 1.0);
  EXPECT_EQ(found[0]["majority"], 0.5);
  EXPECT_NEAR(found[0]["loss"].get<double>(), found[1]["loss"].get<double>(), 1e-5);

  // The model's classes have the model's numbers, however the labels are written and whatever order is stated.
  const auto accuracy = [&](const std::vector<std::string>& more) -> Json {
    std::vector<std::string> words{"eval", place("model"), "--data-folder", place("texts"), "--json", place("s.json")};
    words.insert(words.end(), more.begin(), more.end());
    const auto seen = shade(words);
    return seen.status == 0 ? read_json(place("s.json"))["accuracy"] : Json(seen.output);
  };
  EXPECT_EQ(accuracy({"--classes", "dry,wet"}), 1.0);
  EXPECT_NE(accuracy({"--classes", "dry,wet,hot"}).dump().find("must have the same classes"), std::string::npos);
  auto config = read_json(place("model/config.json"));
  config["id2label"] = {{"0", "LABEL_0"}, {"1", "LABEL_1"}};
  write_json(place("model/config.json"), config);
  EXPECT_NE(accuracy({}).dump().find("labels of the data: 'dry', 'wet'; the model's classes: 'LABEL_0', 'LABEL_1'"),
            std::string::npos)
      << accuracy({});
  EXPECT_EQ(accuracy({"--classes", "wet,dry"}), 1.0);
  scratch.write("texts/a.jsonl", "{\"text\": \"hill and stone\", \"label\": 1}\n");  // one class of two
  EXPECT_EQ(accuracy({}), 1.0);
}

// The answer follows from the prompt in all records but those of one question, which has two answers.
TEST_F(Serve, CountsAnswersThatAreExactlyRight) {
  std::string lines;
  for (int i = 0; i < 40; ++i)
    lines += Json{{"prompt", i % 4 == 0   ? "sea:"
                             : i % 4 == 1 ? "hill:"
                                          : "odd:"},
                  {"completion", i % 4 == 0   ? " wet"
                                 : i % 4 == 1 ? " dry"
                                 : i % 8 < 4  ? " one"
                                              : " two"}}
                 .dump() +
             "\n";
  std::filesystem::create_directories(place("questions"));
  scratch.write("questions/a.jsonl", lines);
  train({"--task", "lm", "--data-folder", place("questions"), "--steps", "80"});
  const auto seen = shade({"eval", place("run"), "--data-folder", place("questions"), "--json", place("scores.json"),
                           "--predictions", place("predictions.jsonl")});
  ASSERT_EQ(seen.status, 0) << seen.output;
  EXPECT_TRUE(says(seen, "exact match")) << seen.output;
  int matches = 0;
  for (const auto& words : split(io::content(place("predictions.jsonl")), '\n')) {
    if (words.empty()) continue;
    const auto line = parse_json(words);
    EXPECT_EQ(line["match"], line["expected"] == line["generated"]) << words;
    EXPECT_EQ(line["record"].get<int>() % 4 == 0, line["expected"] == "wet") << words;
    matches += line["match"].get<bool>() ? 1 : 0;
  }
  EXPECT_EQ(matches, 30);
  const auto found = read_json(place("scores.json"));
  EXPECT_EQ(found["prompts"], 40);
  EXPECT_EQ(found["exact_match"], 0.75) << "of the question with two answers, half are right";
  EXPECT_GT(found["perplexity"], 1.0);
  EXPECT_FALSE(found.contains("accuracy"));
  const auto without = shade({"eval", place("run"), "--data-folder", place("questions"), "--exact-match", "false"});
  EXPECT_FALSE(says(without, "exact match")) << without.output;
}

TEST_F(Serve, FiguresOfAPrivateRunAreMarked) {
  train({"--task", "classify", "--classes", "wet,dry", "--sigma", "1", "--delta", "1e-3"});
  const auto seen = shade({"eval", place("run"), "--data-folder", place("texts"), "--json", place("scores.json"),
                           "--predictions", place("predictions.jsonl")});
  ASSERT_EQ(seen.status, 0) << seen.output;
  EXPECT_TRUE(says(seen, "(not private)")) << seen.output;
  EXPECT_FALSE(open_to_others(place("predictions.jsonl")));
  const auto json = read_json(place("scores.json"));
  EXPECT_TRUE(json["not_private"].contains("accuracy")) << json;
  EXPECT_FALSE(json.contains("accuracy"));
}

}  // namespace
}  // namespace shade::cli
