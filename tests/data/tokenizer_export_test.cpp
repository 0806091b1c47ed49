// The tokenizer of an exported model. What transformers makes of it: tests/train/exports_peer_test.cpp.
#include "shade/data/tokenizer/tokenizer_export.h"

#include <gtest/gtest.h>

#include <set>

#include "shade/base/json.h"
#include "shade/data/tokenizer/bpe_tokenizer.h"
#include "shade/io/errors.h"
#include "shade/io/model_file.h"
#include "tests/io/scratch.h"
#include "tests/support/fault.h"
#include "tests/support/process.h"

namespace shade::data {
namespace {

struct TokenizerExports : testing::Test {
  // The golden tokenizer, in a folder of its own.
  void SetUp() override {
    std::filesystem::copy_file(test::source_root() + "/tests/golden/tokenizer_llama3/tokenizer.json",
                               scratch.path() / "tokenizer.json");
  }
  void change(const std::function<void(nlohmann::json&)>& act) const {
    auto file = nlohmann::json::parse(io::content(scratch.path() / "tokenizer.json"));
    act(file);
    scratch.write("tokenizer.json", file.dump());
  }
  TokenizerExport exported(bool classifier, int64_t spare = 0) const {
    const auto tokenizer = read_tokenizer(scratch.path().string());
    return export_tokenizer(scratch.path().string(), *tokenizer,
                            {.classifier = classifier, .vocab = tokenizer->vocab() + spare, .seq_length = 64});
  }
  static constexpr TokenId kBos = 1434, kEos = 1435, kReserved = 1438;

  io::Scratch scratch;
};

TEST_F(TokenizerExports, ALanguageModelsIsACopy) {
  scratch.write("tokenizer_config.json", R"({"eos_token": "<|end_of_text|>", "chat_template": "{{ x }}"})");
  const auto found = exported(false);
  EXPECT_EQ(found.pad, kEos);
  EXPECT_EQ(found.files.at("tokenizer.json"), io::content(scratch.path() / "tokenizer.json"));
  EXPECT_EQ(found.files.at("tokenizer_config.json"), io::content(scratch.path() / "tokenizer_config.json"));
}

TEST_F(TokenizerExports, AClassifiersIsPaddedByAnotherTokenThanTheEnd) {
  const auto padding = [&](int64_t spare, const char* settings) {
    scratch.write("tokenizer_config.json", settings);
    const auto found = exported(true, spare);
    const auto config = parse_json(found.files.at("tokenizer_config.json"));
    EXPECT_EQ(config["model_max_length"], 64);
    EXPECT_EQ(config["eos_token"], "<|end_of_text|>");
    EXPECT_EQ(config["bos_token"], "<|begin_of_text|>");
    return std::pair(found.pad, config["pad_token"].get<std::string>());
  };
  using Padding = std::pair<TokenId, std::string>;
  EXPECT_EQ(padding(1, R"({"pad_token": "<|start_header_id|>"})"), Padding(1436, "<|start_header_id|>")) << "its own";
  EXPECT_EQ(padding(1, "{}"), Padding(1439, "<|pad|>")) << "a spare token of the model";
  EXPECT_EQ(padding(1, R"({"eos_token": "<|end_of_text|>", "pad_token": "<|end_of_text|>"})"),
            Padding(1439, "<|pad|>"));
  EXPECT_EQ(padding(0, "{}"), Padding(kReserved, "<|eot_id|>")) << "one that stands for no text";
  change([](auto& file) { file["added_tokens"][3]["content"] = "<|finetune_right_pad_id|>"; });
  EXPECT_EQ(padding(1, "{}"), Padding(1437, "<|finetune_right_pad_id|>")) << "named so";
  change([](auto& file) {
    for (size_t i = 2; i < 5; ++i) file["added_tokens"][i]["special"] = false;
  });
  EXPECT_NE(test::fault([&] { exported(true); })
                .find("name a \"pad_token\" in its tokenizer_config.json, or choose "
                      "--vocab-size 1440"),
            std::string::npos);
}

// Read here again it gives the same ids, and eos after a text for everybody else.
TEST_F(TokenizerExports, AClassifiersSetsTheEnd) {
  const auto before = read_tokenizer(scratch.path().string());
  const auto found = exported(true, 1);
  const io::Scratch written;
  for (const auto& [name, content] : found.files) written.write(name, content);
  const auto again = read_tokenizer(written.path().string());
  EXPECT_EQ(again->bos(), kBos);
  EXPECT_EQ(again->eos(), kEos);
  EXPECT_EQ(again->pad(), 1439);
  std::vector<TokenId> expected, ids;
  before->encode("The harbour's 12 ships, and a summit.", expected);
  again->encode("The harbour's 12 ships, and a summit.", ids);
  EXPECT_EQ(ids, expected);
  const auto single = nlohmann::json::parse(found.files.at("tokenizer.json"))["post_processor"]["single"];
  ASSERT_EQ(single.size(), 3u);
  EXPECT_EQ(single[0]["SpecialToken"]["id"], "<|begin_of_text|>");
  EXPECT_EQ(single[2]["SpecialToken"]["id"], "<|end_of_text|>");
}

TEST_F(TokenizerExports, WhatLiesBesideALanguageModelsIsCopied) {
  scratch.write("special_tokens_map.json", "{}");
  scratch.write("chat_template.jinja", "{{ x }}");
  const auto found = exported(false);
  EXPECT_EQ(found.files.at("chat_template.jinja"), "{{ x }}");
  EXPECT_EQ(found.files.at("special_tokens_map.json"), "{}");
  EXPECT_EQ(exported(true, 1).files.size(), 2u) << "a classifier has no conversations, and its own special tokens";
}

// Neither a key behind a link nor what is no JSON goes into an export.
TEST_F(TokenizerExports, CopiesFilesOfTheFolderAlone) {
  namespace fs = std::filesystem;
  const io::Scratch elsewhere;
  for (const char* name :
       {"special_tokens_map.json", "chat_template.jinja", "chat_template.json", "tokenizer_config.json"}) {
    fs::create_symlink(elsewhere.write(name, "{}"), scratch.path() / name);
    EXPECT_NE(test::fault<io::FormatError>([&] {
                exported(false);
              }).find(text("cannot read ", scratch.path() / name, ": it leads to ")),
              std::string::npos);
    fs::remove(scratch.path() / name);
    scratch.write(name, std::string(name).ends_with(".json") ? "[\"a key\"]" : "\xFF");
    EXPECT_NE(test::fault<io::FormatError>([&] { exported(false); }).find(name), std::string::npos);
    scratch.write(name, "{}");
    EXPECT_EQ(exported(false).files.at(name), "{}");
  }
  const auto taken = exported(false).taken;
  EXPECT_EQ(std::set<fs::path>(taken.begin(), taken.end()),
            (std::set<fs::path>{scratch.path() / "tokenizer.json", scratch.path() / "tokenizer_config.json",
                                scratch.path() / "special_tokens_map.json", scratch.path() / "chat_template.jinja",
                                scratch.path() / "chat_template.json"}));
  fs::rename(scratch.path() / "tokenizer.json", elsewhere.path() / "tokenizer.json");
  fs::create_symlink(elsewhere.path() / "tokenizer.json", scratch.path() / "tokenizer.json");
  for (const auto& place : {scratch.path(), scratch.path() / "tokenizer.json"})
    EXPECT_NE(test::fault<io::FormatError>([&] { read_tokenizer(place.string()); }).find("it leads to"),
              std::string::npos);
}

TEST_F(TokenizerExports, FilesAreBounded) {
  for (const auto& [name, most] : {std::pair{"chat_template.jinja", io::kMaxModelText},
                                   {"tokenizer_config.json", io::kMaxModelText},
                                   {"tokenizer.json", kMaxTokenizer}}) {
    const auto before = io::content(scratch.path() / name);
    scratch.write(name, "");
    std::filesystem::resize_file(scratch.path() / name, most + 1);  // a hole: takes no space
    EXPECT_EQ(test::fault<io::FormatError>([&] { exported(false); }),
              text(scratch.path() / name, " has ", most + 1, " bytes; expected at most ", most));
    std::filesystem::remove(scratch.path() / name);
    if (!before.empty()) scratch.write(name, before);
  }
}

// Read here again, and by transformers (exports_peer_test), it gives the numbers of the bytes.
TEST_F(TokenizerExports, BytesAreATokenizerWithoutMerges) {
  const ByteTokenizer bytes;
  for (const bool classifier : {false, true}) {
    const auto found = export_tokenizer("bytes", bytes, {.classifier = classifier, .vocab = 259, .seq_length = 8});
    EXPECT_EQ(found.pad, ByteTokenizer::kPad);
    const io::Scratch written;
    for (const auto& [name, content] : found.files) written.write(name, content);
    const auto again = read_tokenizer(written.path().string());
    EXPECT_EQ(again->bos(), bytes.bos());
    EXPECT_EQ(again->eos(), bytes.eos());
    EXPECT_EQ(again->pad(), bytes.pad());
    EXPECT_EQ(again->vocab(), bytes.vocab());
    std::vector<TokenId> expected, ids;
    const std::string words = "Größe  12\n\t\x01 summit's";
    bytes.encode(words, expected);
    again->encode(words, ids);
    EXPECT_EQ(ids, expected);
    EXPECT_EQ(again->decode(ids), words);
  }
}

}  // namespace
}  // namespace shade::data
