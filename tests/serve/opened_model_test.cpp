// A run, the model folder and the adapters that it exports are one model, and say the same.
#include "shade/serve/opened_model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "shade/io/errors.h"
#include "shade/serve/score.h"
#include "shade/train/feed/records.h"
#include "tests/io/scratch.h"
#include "tests/support/fault.h"
#include "tests/train/training.h"

namespace shade::serve {
namespace {

struct Opened : testing::Test {
  void SetUp() override {
    std::string lines;
    for (int i = 0; i < 60; ++i)
      lines += Json{{"text", i % 3 == 0 ? text("sea wave ", i) : text("hill stone ", i)},
                    {"label", i % 3 == 0 ? "wet" : "dry"}}
                   .dump() +
               "\n";
    std::filesystem::create_directories(place("texts"));
    scratch.write("texts/a.jsonl", lines);
  }
  std::string place(const std::string& name) const { return (scratch.path() / name).string(); }

  void train(const std::string& run, const train::Words& more) const {
    train::Words words{
        {"model.model", "llama-nano"}, {"model.vocab_size", "260"}, {"data.data_folder", place("texts")},
        {"data.tokenizer", "bytes"},   {"train.steps", "12"},       {"train.batch_size", "8"},
        {"train.micro_batch", "8"},    {"train.seq_length", "24"},  {"train.export_folder", place(run + "_model")},
        {"optim.lr", "1e-2"}};
    words.insert(words.end(), more.begin(), more.end());
    train::train_in(place(run), 1, words);
  }
  void train_adapter(const std::string& run, const std::string& task, const train::Words& more = {}) const {
    train("base", {{"model.task", "lm"}});
    train::Words words{{"model.task", task},
                       {"model.weights", place("base_model")},
                       {"model.lora_rank", "4"},
                       {"train.adapter_folder", place(run + "_adapter")}};
    words.insert(words.end(), more.begin(), more.end());
    train(run, words);
  }
  nn::Batch batch(const OpenedModel& opened, const std::vector<std::string>& stated = {}) const {
    auto data = opened.data;
    data.data_folder = place("texts");
    data.tokenizer = opened.tokenizer_place;
    data.classes = stated;
    const auto records = train::open_texts(data, 24, *opened.model->text_traits(), {}, opened.head());
    std::vector<int64_t> all(static_cast<size_t>(records->size()));
    std::iota(all.begin(), all.end(), 0);
    return records->batch(all);
  }
  at::Tensor outputs(const OpenedModel& opened, const std::vector<std::string>& stated = {}) const {
    return opened.model->outputs(batch(opened, stated));
  }

  io::Scratch scratch;
};

// Of adapters and of their base.
TEST_F(Opened, FilesThatLeadOutOfTheirFolderAreRefused) {
  namespace fs = std::filesystem;
  train_adapter("run", "lm");
  for (const auto* name :
       {"run_adapter/adapter_config.json", "run_adapter/adapter_model.safetensors", "run_adapter/tokenizer.json",
        "run_adapter/tokenizer_config.json", "base_model/generation_config.json", "base_model/model.safetensors",
        "base_model/config.json"}) {
    fs::rename(place(name), place("elsewhere"));
    fs::create_symlink("../elsewhere", place(name));
    EXPECT_NE(test::fault<io::FormatError>([&] {
                open_model(place("run_adapter"));
              }).find(text("cannot read ", fs::path(place(name)), ": it leads to ")),
              std::string::npos)
        << name;
    fs::rename(place("elsewhere"), place(name));
  }
  EXPECT_NO_THROW(open_model(place("run_adapter")));
}

TEST_F(Opened, ARunItsExportAndItsAdaptersAreOneModel) {
  for (const std::string task : {"lm", "classify"}) {
    train_adapter(task, task, {{"data.classes", "wet,dry"}});
    const auto run = open_model(place(task)), folder = open_model(place(task + "_model")),
               adapter = open_model(place(task + "_adapter"));
    const auto expected = outputs(run);
    EXPECT_GT(expected.abs().max().item<double>(), 0.1);
    EXPECT_TRUE(at::allclose(outputs(folder), expected, 1e-4, 1e-5)) << task;
    const std::vector<std::string> stated{"wet", "dry"};  // adapters have no place for names
    EXPECT_TRUE(at::allclose(outputs(adapter, stated), expected, 1e-4, 1e-5)) << task;
    EXPECT_FALSE(at::allclose(outputs(open_model(place("base_model"))).mean(), expected.mean(), 1e-4, 1e-5));
    if (task == "classify") {
      EXPECT_EQ(run.classes, (std::vector<std::string>{"wet", "dry"}));
      EXPECT_EQ(folder.classes, run.classes);
      EXPECT_EQ(folder.seq_length, 24);
      EXPECT_NE(test::fault([&] { outputs(adapter); }).find("'dry', 'wet'; the model's classes: 'LABEL_0', 'LABEL_1'"),
                std::string::npos);
      const auto labels = batch(run).labels;
      EXPECT_TRUE(labels.equal(batch(folder).labels) && labels.equal(batch(folder, {"dry", "wet"}).labels))
          << "the model's numbers, whatever the order that is stated";
      EXPECT_TRUE(labels.equal(batch(adapter, stated).labels));
    }
    EXPECT_EQ(run.seq_length, 24);
    EXPECT_FALSE(run.is_private);
    EXPECT_NE(run.title.find("step 12"), std::string::npos) << run.title;
    std::filesystem::remove_all(place("base"));
    std::filesystem::remove_all(place("base_model"));
  }
}

TEST_F(Opened, ACheckpointIsOpenedByItsFolder) {
  train("run", {{"model.task", "lm"}, {"train.save_every", "6"}, {"train.keep", "5"}, {"optim.ema", "0.5"}});
  std::vector<std::string> titles;
  for (const auto& entry : std::filesystem::directory_iterator(place("run") + "/checkpoints"))
    if (entry.is_directory()) titles.push_back(open_model(entry.path().string()).title);
  std::sort(titles.begin(), titles.end());
  ASSERT_GE(titles.size(), 2u);
  EXPECT_NE(titles[0].find("step 12"), std::string::npos) << titles[0];
  EXPECT_NE(titles.back().find("step 6"), std::string::npos) << titles.back();
  EXPECT_TRUE(at::allclose(outputs(open_model(place("run"))), outputs(open_model(place("run_model"))), 1e-5, 1e-6))
      << "both are the moving average";
}

TEST_F(Opened, SaysThatAPrivateRunWasOne) {
  train("run", {{"model.task", "lm"}, {"dp.dp", "flash_bookkeeping"}, {"dp.sigma", "1"}});
  EXPECT_TRUE(open_model(place("run")).is_private);
}

TEST_F(Opened, RefusesWhatIsNoModel) {
  const auto said = [&](const std::string& name, const OpenOptions& options = {}) {
    return test::fault([&] { open_model(place(name), options); });
  };
  EXPECT_NE(said("nowhere").find("no such folder"), std::string::npos);
  EXPECT_NE(said("texts").find("is not a model"), std::string::npos);
  train_adapter("run", "lm");
  EXPECT_NE(said("run", {.base = place("base_model")}).find("--base is for LoRA adapters"), std::string::npos);
  const auto config = place("run_adapter") + "/adapter_config.json";
  auto changed = read_json(config);
  changed["use_dora"] = true;
  write_json(config, changed);
  EXPECT_NE(said("run_adapter").find("use_dora is true"), std::string::npos);
  changed["use_dora"] = false;
  changed["r"] = 2;
  write_json(config, changed);
  EXPECT_NE(said("run_adapter").find("has shape"), std::string::npos) << said("run_adapter");
  changed["r"] = 4;
  changed["target_modules"] = {"q_proj"};
  write_json(config, changed);
  EXPECT_NE(said("run_adapter").find("tensors that the model doesn't know"), std::string::npos);
  changed["base_model_name_or_path"] = "nowhere";
  write_json(config, changed);
  EXPECT_NE(said("run_adapter").find("name its folder (--base FOLDER)"), std::string::npos) << said("run_adapter");
  std::filesystem::remove(place("run_model") + "/model.safetensors");
  EXPECT_THROW(open_model(place("run_model")), Error) << "no weights are random";
  std::filesystem::remove_all(place("base") + "/checkpoints");
  EXPECT_NE(said("base").find("has no checkpoint yet"), std::string::npos) << said("base");
}

}  // namespace
}  // namespace shade::serve
