// Released folders of private runs in transformers' pipeline(): they load, and say what the run's own model says.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "shade/serve/generate.h"
#include "shade/serve/opened_model.h"
#include "shade/train/feed/records.h"
#include "shade/train/release/release.h"
#include "tests/io/scratch.h"
#include "tests/support/process.h"
#include "tests/train/training.h"

namespace shade::train {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kGenerated = 8;  // as TOKENS of check_release.py

struct ReleasePeer : testing::Test {
  void SetUp() override {
    if (!fs::exists(python)) GTEST_SKIP() << "no transformers: run tools/bootstrap peers";
    std::string lines;
    for (int i = 0; i < 40; ++i)
      lines +=
          Json{{"text", i % 2 == 0 ? "sea and wave" : "hill and stone"}, {"label", i % 2 == 0 ? "wet" : "dry"}}.dump() +
          "\n";
    fs::create_directories(place("texts"));
    scratch.write("texts/a.jsonl", lines);
  }
  std::string place(const std::string& name) const { return (scratch.path() / name).string(); }

  // Little noise, so that something is learned; it is stated.
  void train(const std::string& run, const Words& more) const {
    Words words{{"model.model", "llama-nano"},
                {"model.vocab_size", "260"},
                {"data.tokenizer", "bytes"},
                {"data.data_folder", place("texts")},
                {"data.cache_folder", place("cache")},
                {"train.steps", "30"},
                {"train.batch_size", "8"},
                {"train.micro_batch", "8"},
                {"train.seq_length", "24"},
                {"optim.lr", "1e-2"},
                {"dp.dp", "auto"},
                {"dp.sigma", "0.1"}};
    words.insert(words.end(), more.begin(), more.end());
    train_in(place("runs/" + run), 1, words);
    release(find_run(place("runs/" + run)).value(), place("out/" + run));
  }

  io::Scratch scratch;
  std::string python = test::source_root() + "/.deps/peers/bin/python";
};

TEST_F(ReleasePeer, LoadsInPipelines) {
  const std::vector<std::string> texts{"sea and", "hill and"};
  Json cases = Json::array();

  train("lm", {{"model.task", "lm"}});
  auto model = serve::open_model(place("runs/lm"));
  auto options = serve::generation_defaults(model);
  options.max_new_tokens = kGenerated;
  Json made = Json::array();
  for (const auto& prompt : texts) {
    std::vector<data::TokenId> ids;
    if (model.tokenizer->bos()) ids.push_back(*model.tokenizer->bos());
    model.tokenizer->encode(prompt, ids);
    made.push_back(serve::decoded(*model.tokenizer, serve::generate(*model.model, {ids}, options)[0].tokens));
  }
  cases.push_back({{"folder", place("out/lm")}, {"task", "text-generation"}, {"texts", texts}, {"expected", made}});

  train("classify", {{"model.task", "classify"}, {"data.classes", "dry,wet"}});
  cases.push_back({{"folder", place("out/classify")},
                   {"task", "text-classification"},
                   {"texts", {"sea and wave", "hill and stone"}},
                   {"expected", {"wet", "dry"}}});

  write_json(place("expected.json"), cases);
  const auto seen = test::run({python, test::source_root() + "/tools/golden/check_release.py", place("expected.json")},
                              {.environment = {{"PYTHONDONTWRITEBYTECODE", "1"}}, .limit = Seconds(300)});
  EXPECT_EQ(seen.status, 0) << seen.output;
  EXPECT_NE(seen.output.find("2 released folders load in pipelines"), std::string::npos) << seen.output;
}

}  // namespace
}  // namespace shade::train
