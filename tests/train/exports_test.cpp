// What a finished run writes for others: in which type, merged how, and refused before the first step if it can't be.
#include <gtest/gtest.h>

#include "shade/base/json.h"
#include "shade/io/dtype.h"
#include "shade/io/safetensors_writer.h"
#include "shade/io/weight_folder.h"
#include "tests/io/scratch.h"
#include "tests/train/training.h"

namespace shade::train {
namespace {

using io::Scratch;

struct ExportedRuns : testing::Test {
  std::string place(const std::string& name) const { return (scratch.path() / name).string(); }

  // A run on synthetic records that is exported to `name`.
  Trained run(const std::string& name, const Words& more, int ranks = 1) const {
    return train_in(place(name + "_run"), ranks, with(with(words, {{"train.export_folder", place(name)}}), more));
  }
  at::Tensor tensor(const std::string& folder, const std::string& name) const {
    return io::WeightFolder(place(folder)).tensor(name).clone();
  }
  std::string said_type(const std::string& folder) const {
    return read_json(place(folder + "/config.json"))["torch_dtype"];
  }

  Scratch scratch;
  Words words{{"model.task", "lm"},       {"train.steps", "3"},       {"train.batch_size", "4"},
              {"train.seq_length", "12"}, {"train.micro_batch", "4"}, {"train.records", "40"},
              {"optim.lr", "1e-2"}};
  const std::string projection = "model.layers.0.self_attn.q_proj.weight";
};

TEST_F(ExportedRuns, AdaptersOfABf16RunAreMergedInFp32AndRoundedOnce) {
  run("base", {{"model.dtype", "bf16"}});
  for (const int ranks : {1, 2}) {
    const auto name = text("merged_", ranks), adapter = text("adapter_", ranks);
    run(name,
        {{"model.weights", place("base")},
         {"model.dtype", "bf16"},
         {"model.lora_rank", "2"},
         {"model.lora_alpha", "8"},
         {"shard.shard", ranks == 1 ? "none" : "zero3"},
         {"train.adapter_folder", place(adapter)}},
        ranks);
    const auto lora = [&](const char* part) {
      return io::SafetensorsFile(place(adapter) + "/adapter_model.safetensors")
          .tensor(text("base_model.model.model.layers.0.self_attn.q_proj.", part, ".weight"))
          .clone();
    };
    const auto base = tensor("base", projection).to(at::kFloat);
    const auto expected = at::addmm(base, lora("lora_B"), lora("lora_A"), 1, 4);
    EXPECT_TRUE(at::equal(tensor(name, projection), expected.to(at::kBFloat16))) << ranks;
    EXPECT_FALSE(at::equal(expected, base)) << "the adapters do nothing";
    EXPECT_EQ(said_type(name), "bfloat16");
  }
}

TEST_F(ExportedRuns, HaveTheTypeOfTheirWeights) {
  struct Case {
    const char *name, *compute, *weights, *asked, *expected;
  };
  for (const auto& [name, compute, weights, asked, expected] :
       {Case{"plain", "fp32", "", "auto", "float32"}, Case{"narrow", "bf16", "", "auto", "bfloat16"},
        Case{"wide_from_narrow", "fp32", "narrow", "auto", "bfloat16"},
        Case{"narrow_from_wide", "bf16", "plain", "auto", "float32"},
        Case{"asked_wide", "bf16", "narrow", "fp32", "float32"}, Case{"asked_half", "fp32", "plain", "fp16", "float16"},
        Case{"from_half", "fp32", "asked_half", "auto", "float16"}}) {
    Words more{{"model.dtype", compute}, {"train.export_dtype", asked}};
    if (*weights != '\0') more.emplace_back("model.weights", place(weights));
    run(name, more);
    EXPECT_EQ(said_type(name), expected) << name;
    for (const auto* weight : {projection.c_str(), "model.norm.weight", "lm_head.weight"})
      EXPECT_EQ(tensor(name, weight).scalar_type(), io::from_hf_name(expected)) << name << " " << weight;
  }
}

// A file without config.json has the type of its tensors.
TEST_F(ExportedRuns, HaveTheTypeOfTheTensorsWhereNothingElseSaysIt) {
  run("narrow", {{"model.dtype", "bf16"}});
  std::filesystem::remove(place("narrow/config.json"));
  run("again", {{"model.weights", place("narrow/model.safetensors")}});
  EXPECT_EQ(said_type("again"), "bfloat16");
}

TEST_F(ExportedRuns, WhatCantBeExportedIsRefusedBeforeTheFirstStep) {
  run("base", {});
  std::map<std::string, at::Tensor> tensors;
  const io::WeightFolder base(place("base"));
  for (const auto& name : base.names()) tensors[name] = base.tensor(name).clone();
  tensors["model.layers.0.mlp.down_proj.weight"].mul_(1e8);
  std::filesystem::create_directories(place("large"));
  std::filesystem::copy_file(place("base/config.json"), place("large/config.json"));
  io::write_safetensors(place("large/model.safetensors"), {tensors.begin(), tensors.end()});
  const auto said = refused(place("run"), with(words, {{"model.weights", place("large")},
                                                       {"train.export_folder", place("out")},
                                                       {"train.export_dtype", "fp16"}}));
  EXPECT_NE(said.find("beyond the range of fp16 (65504); export in another type (--export-dtype"), std::string::npos)
      << said;
  EXPECT_FALSE(std::filesystem::exists(place("run/metrics.jsonl")));
}

// transformers' defaults, or nothing, in the config.json of a model that reads bytes now.
TEST_F(ExportedRuns, NameTheTokensThatTrainingFramedTextsWith) {
  scratch.write("a.txt", "a text\nanother one\na third\nand one more\n");
  const Words texts{{"data.data_folder", place("a.txt")},
                    {"data.cache_folder", place("cache")},
                    {"data.text_unit", "line"},
                    {"model.vocab_size", "260"}};
  run("base", texts);
  const auto said = [&](const char* name, const Json& ends, const char* generation) {
    std::filesystem::copy(place("base"), place(text(name, "_base")), std::filesystem::copy_options::recursive);
    auto config = read_json(place(text(name, "_base/config.json")));
    for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) config.erase(key);
    config.update(ends);
    write_json(place(text(name, "_base/config.json")), config);
    std::ofstream(place(text(name, "_base/generation_config.json"))) << generation;
    const auto base = place(text(name, "_base"));
    run(name, {{"model.model", base},
               {"model.weights", base},
               {"data.data_folder", place("a.txt")},
               {"data.cache_folder", place("cache")},
               {"data.text_unit", "line"}});
    config = read_json(place(text(name, "/config.json")));
    return std::pair(config, read_json(place(text(name, "/generation_config.json"))));
  };
  for (const auto& [name, ends] :
       {std::pair{"absent", Json::object()},
        {"null", {{"bos_token_id", nullptr}, {"eos_token_id", nullptr}, {"pad_token_id", nullptr}}},
        {"defaults", {{"bos_token_id", 1}, {"eos_token_id", 2}, {"pad_token_id", 0}}}}) {
    const auto [config, generation] = said(name, ends, R"({"temperature": 0.5, "eos_token_id": 2})");
    for (const auto& json : {config, generation}) {
      EXPECT_EQ(json["bos_token_id"], 257) << name;
      EXPECT_EQ(json["eos_token_id"], 258) << name;
      EXPECT_EQ(json["pad_token_id"], 256) << name;
    }
    EXPECT_EQ(generation["temperature"], 0.5) << "what else came with the weights stays";
  }
  const auto [config, generation] = said("several", {{"eos_token_id", {7, 258}}}, R"({"eos_token_id": [258, 9]})");
  EXPECT_EQ(config["eos_token_id"], Json({7, 258})) << "the tokenizer's is among them";
  EXPECT_EQ(generation["eos_token_id"], Json({258, 9}));
}

}  // namespace
}  // namespace shade::train
