// Exports of trained models in transformers and PEFT: the same classes for the same texts, in padded batches of the
// exported tokenizer and in pipelines, the same next tokens and the same greedy generation.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>

#include "shade/io/safetensors_writer.h"
#include "shade/serve/score.h"
#include "shade/train/feed/records.h"
#include "tests/io/scratch.h"
#include "tests/support/process.h"
#include "tests/train/training.h"

namespace shade::train {
namespace {

constexpr int64_t kRecords = 200, kLength = 64, kGenerated = 32;
constexpr size_t kPrompts = 6;

struct Case {
  const char* name;
  const char* task;
  const char* dtype;
  int64_t lora_rank;  // 0: all weights
  const char *model, *tokenizer;
  int64_t vocab;
};

// Each has another way to its padding: a spare token of the model, a reserved one of the tokenizer, its own.
const Case kCases[] = {{"classify_fp32_full", "classify", "fp32", 0, "llama-nano", "tokenizer_llama3", 1500},
                       {"classify_fp32_lora", "classify", "fp32", 8, "llama-nano", "tokenizer_llama3", 1439},
                       {"classify_bf16_full", "classify", "bf16", 0, "llama-nano", "bytes", 260},
                       {"classify_bf16_lora", "classify", "bf16", 8, "qwen2-nano", "tokenizer_qwen2", 1440},
                       {"lm_fp32_full", "lm", "fp32", 0, "llama-nano", "bytes", 260},
                       {"lm_fp32_lora", "lm", "fp32", 8, "qwen2-nano", "tokenizer_qwen2", 1440},
                       {"lm_bf16_full", "lm", "bf16", 0, "llama-nano", "tokenizer_llama3", 1500},
                       {"lm_bf16_lora", "lm", "bf16", 8, "llama-nano", "tokenizer_llama3", 1439}};

struct ExportPeers : testing::Test {
  void SetUp() override {
    if (!std::filesystem::exists(python)) GTEST_SKIP() << "no transformers: run tools/bootstrap peers";
    write_records();
  }
  std::string place(const std::string& name) const { return (scratch.path() / name).string(); }

  // Texts of 1 to 6 words of two kinds; the kind that comes more often is the class.
  void write_records() const {
    static const std::vector<std::vector<std::string>> kWords{{"sea", "wave", "harbour", "salt", "ship's"},
                                                              {"hill", "stone", "Größe", "goat", "summit 12"}};
    std::string lines;
    uint32_t state = 1;
    const auto draw = [&](uint32_t below) { return (state = state * 1664525 + 1013904223) / 65536 % below; };
    for (int64_t i = 0; i < kRecords; ++i) {
      const auto label = draw(2), words = 1 + draw(6);
      std::string record;
      for (uint32_t w = 0; w < words; ++w)
        record += (w == 0 ? "" : " ") + kWords[w % 3 == 1 ? 1 - label : label][draw(5)];
      lines += Json{{"text", record}, {"label", label == 0 ? "sea" : "land"}}.dump() + "\n";
    }
    std::filesystem::create_directories(place("texts"));
    scratch.write("texts/a.jsonl", lines);
  }

  std::string tokenizer(const Case& c) const {
    return c.tokenizer == std::string("bytes") ? "bytes" : test::source_root() + "/tests/golden/" + c.tokenizer;
  }
  Trained train(const Case& c, const std::string& run, const Words& more) const {
    Words words{{"model.model", c.model},
                {"model.vocab_size", std::to_string(c.vocab)},
                {"model.num_classes", "2"},
                {"model.dtype", c.dtype},
                {"data.tokenizer", tokenizer(c)},
                {"data.data_folder", place("texts")},
                {"data.cache_folder", place("cache")},
                {"train.test_folder", place("texts")},
                {"train.steps", "40"},
                {"train.batch_size", "16"},
                {"train.micro_batch", "16"},
                {"train.seq_length", std::to_string(kLength)},
                {"dp.sampler", "shuffled"},
                {"optim.lr", "1e-2"}};
    words.insert(words.end(), more.begin(), more.end());
    return train_in(place("runs/" + run), 1, words);
  }

  // Trains, exports, and writes what the exported weights predict here, computed in fp32.
  void add(const Case& c) {
    const std::string name = c.name;
    Words words{{"model.task", c.task}, {"train.export_folder", place("out/" + name + "/model")}};
    if (c.lora_rank > 0) {
      const auto base = place("out/" + name + "/base");
      train(c, name + "_base", {{"model.task", "lm"}, {"train.steps", "40"}, {"train.export_folder", base}});
      words.insert(words.end(), {{"model.weights", base},
                                 {"model.lora_rank", std::to_string(c.lora_rank)},
                                 {"model.lora_targets", "q_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"},
                                 {"optim.lr", "3e-3"},
                                 {"train.steps", "80"},
                                 {"train.adapter_folder", place("out/" + name + "/adapter")}});
    }
    const auto trained = train(c, name, words);
    Json said{{"dtype", c.dtype == std::string("bf16") ? "bfloat16" : "float32"}, {"length", kLength}};
    if (trained.result.test->accuracy) said["accuracy"] = *trained.result.test->accuracy;
    io::TensorMap predicted;
    add_predictions(c, "model", predicted, said);
    if (c.lora_rank > 0) add_predictions(c, "adapter", predicted, said);
    io::write_safetensors(place("out/" + name + "/shade.safetensors"), predicted);
    write_json(place("out/" + name + "/said.json"), said);
  }

  // What this export predicts here: tensors and texts whose names begin with `part`.
  void add_predictions(const Case& c, const std::string& part, io::TensorMap& predicted, Json& said) const {
    auto opened = serve::open_model(place(text("out/", c.name, "/", part)));
    const data::DataConfig data{.data_folder = place("texts"),
                                .tokenizer = opened.tokenizer_place,
                                .classes = opened.classes,
                                .cache_folder = place("cache")};
    const auto texts = open_texts(data, kLength, *opened.model->text_traits());
    const auto scores = serve::score(opened, *texts, /*exact_match=*/false);
    std::vector<int64_t> records(kRecords);
    std::iota(records.begin(), records.end(), 0);
    const auto batch = texts->batch(records);
    if (c.task == std::string("classify")) {
      EXPECT_LT(batch.mask_BT.sum(1).min().item<int64_t>() * 3, batch.mask_BT.sum(1).max().item<int64_t>()) << "ragged";
      predicted[part + ".logits"] = opened.model->outputs(batch);
      said[part + ".accuracy"] = *scores.evaluation.accuracy;
      return;
    }
    predicted[part + ".next"] = opened.model->outputs(batch).argmax(-1);
    predicted[part + ".mask"] = batch.mask_BT;
    auto options = serve::generation_defaults(opened);
    options.max_new_tokens = kGenerated;
    auto generated = at::full({static_cast<int64_t>(kPrompts), kGenerated}, int64_t{-1}, at::kLong);
    for (int64_t i = 0; i < static_cast<int64_t>(kPrompts); ++i) {  // without eos, as a prompt
      const auto* ids = batch.ids_BT[i].data_ptr<int64_t>();
      auto made = serve::generate(*opened.model, {{ids, ids + batch.mask_BT[i].sum().item<int64_t>() - 1}}, options)[0];
      said[part + ".texts"].push_back(opened.tokenizer->decode(made.tokens));
      if (made.ended) made.tokens.push_back(opened.tokenizer->eos());
      for (size_t t = 0; t < made.tokens.size(); ++t) generated[i][static_cast<int64_t>(t)] = made.tokens[t];
    }
    predicted[part + ".generated"] = generated;
  }

  io::Scratch scratch;
  std::string python = test::source_root() + "/.deps/peers/bin/python";
};

// One process looks at all: importing transformers takes far longer than the rest.
TEST_F(ExportPeers, TransformersAndPeftPredictTheSame) {
  for (const auto& c : kCases) add(c);
  const auto seen =
      test::run({python, test::source_root() + "/tools/golden/check_exports.py", place("out"), place("texts/a.jsonl")},
                {.environment = {{"PYTHONDONTWRITEBYTECODE", "1"}}, .limit = Seconds(600)});
  EXPECT_EQ(seen.status, 0) << seen.output;
  EXPECT_NE(seen.output.find(text(std::size(kCases), " exports predict the same")), std::string::npos) << seen.output;
  if (std::getenv("SHADE_VERBOSE") != nullptr) std::puts(seen.output.c_str());
}

}  // namespace
}  // namespace shade::train
