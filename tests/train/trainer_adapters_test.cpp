// Adapters that a trainer writes: tested again, refused over others, read by PEFT.
#include "shade/base/json.h"
#include "shade/data/sample_corpus.h"
#include "tests/io/scratch.h"
#include "tests/support/process.h"
#include "tests/train/training.h"

namespace shade::train {
namespace {

using io::Scratch;

// A language model, written as it begins; from it, adapters that classify, trained on two ranks and written alone and
// added to their weights.
struct Adapters {
  Scratch scratch;
  Words words{{"model.task", "classify"},
              {"model.vocab_size", "260"},
              {"model.num_classes", "6"},
              {"data.data_folder", place("corpus/labelled")},
              {"data.cache_folder", place("cache")},
              {"train.test_folder", place("other/labelled")},
              {"train.batch_size", "32"},
              {"train.seq_length", "24"},
              {"train.micro_batch", "16"},
              {"dp.sampler", "shuffled"},
              {"optim.lr", "3e-2"}};
  Evaluation tested;

  Adapters() {
    data::write_sample_corpus(place("corpus"), KiB(64), 1);
    data::write_sample_corpus(place("other"), KiB(32), 2);
    run("first", 1, {{"model.task", "lm"}, {"train.steps", "0"}, {"train.export_folder", place("base")}});
    tested = run("run", 2,
                 {{"model.weights", place("base")},
                  {"model.lora_rank", "4"},
                  {"model.lora_alpha", "12"},
                  {"model.lora_targets", "q_proj,v_proj,down_proj"},
                  {"shard.shard", "zero3"},
                  {"train.steps", "60"},
                  {"train.export_folder", place("model")},
                  {"train.adapter_folder", place("adapter")}});
  }
  std::string place(const char* name) const { return (scratch.path() / name).string(); }
  Evaluation run(const char* name, int ranks, const Words& more) const {
    return train_in(scratch.path() / name, ranks, with(words, more)).result.test.value();
  }
};

TEST(Trainer, AnExportedAdapterIsTestedAlike) {
  const Adapters made;
  const auto& tested = made.tested;
  EXPECT_GT(*tested.accuracy, *tested.majority + 0.1);
  const auto config = read_json(made.place("model/config.json"));
  EXPECT_EQ(config["id2label"].size(), 6u);
  EXPECT_EQ(config["label2id"][config["id2label"]["5"].get<std::string>()], 5);
  EXPECT_EQ(config["pad_token_id"], 256);

  const auto again = made.run(
      "again", 1, {{"model.model", made.place("model")}, {"model.weights", made.place("model")}, {"train.steps", "0"}});
  EXPECT_NEAR(again.loss, tested.loss, 1e-5 * tested.loss);
  EXPECT_EQ(again.accuracy, tested.accuracy);
  EXPECT_EQ(again.majority, tested.majority);
  EXPECT_EQ(again.records, tested.records);

  for (const auto& [option, taken] : Words{{"train.export_folder", "model"}, {"train.adapter_folder", "adapter"}}) {
    const auto place = made.place(taken.c_str());
    const auto said = refused(made.place("other_run"), with(made.words, {{"model.lora_rank", "4"}, {option, place}}));
    EXPECT_NE(said.find(place), std::string::npos) << option << ": " << said;
  }
}

TEST(Trainer, AFinishedRunIsTestedAgainAndExportsNothing) {
  const Adapters made;
  const Words again{{"model.weights", made.place("base")},
                    {"model.lora_rank", "4"},
                    {"model.lora_alpha", "12"},
                    {"model.lora_targets", "q_proj,v_proj,down_proj"},
                    {"shard.shard", "zero3"},
                    {"train.steps", "60"},
                    {"train.export_folder", made.place("model")}};
  EXPECT_EQ(made.run("run", 2, again).accuracy, made.tested.accuracy);
  const auto said = refused(made.place("fewer"),
                            with(made.words, {{"model.weights", made.place("base")}, {"model.num_layers", "1"}}));
  EXPECT_NE(said.find("config.json: num_hidden_layers is 2, and 1 in llama-nano"), std::string::npos) << said;
}

TEST(Trainer, AnExportedAdapterIsReadByPeft) {
  const auto python = test::source_root() + "/.deps/peers/bin/python";
  if (!std::filesystem::exists(python) || test::run({python, "-c", "import peft"}).status != 0)
    GTEST_SKIP() << "no peft: run tools/bootstrap peers";
  const Adapters made;
  const auto seen = test::run({python, test::source_root() + "/tools/golden/check_adapter.py", made.place("base"),
                               made.place("adapter"), made.place("model")},
                              {.environment = {{"PYTHONDONTWRITEBYTECODE", "1"}}, .limit = Seconds(240)});
  EXPECT_EQ(seen.status, 0) << seen.output;
  EXPECT_NE(seen.output.find("PEFT agrees"), std::string::npos) << seen.output;
}

}  // namespace
}  // namespace shade::train
