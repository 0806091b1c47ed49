#include "shade/data/tokenizer/bpe_tokenizer.h"

#include <nlohmann/json.hpp>
#include <random>

#include "shade/data/tokenizer/byte_level.h"
#include "shade/data/tokenizer/normalizer.h"
#include "shade/io/errors.h"
#include "tokenizer_cases.h"

namespace shade::data {
namespace {

using Document = nlohmann::json;
using Ids = std::vector<TokenId>;

std::filesystem::path golden(const std::string& kind) {
  return std::filesystem::path(std::getenv("SHADE_SOURCE")) / "tests/golden" / ("tokenizer_" + kind);
}

Ids encoded(const Tokenizer& tokenizer, std::string_view words) {
  Ids ids;
  tokenizer.encode(words, ids);
  return ids;
}

// Bytes 0-255 in order, "ab" 256, "abc" 257, "bc" 258, and an end.
Document tiny() {
  Document vocab;
  for (int b = 0; b < 256; ++b) vocab[token_of_byte(static_cast<unsigned char>(b))] = b;
  vocab["ab"] = 256;
  vocab["abc"] = 257;
  vocab["bc"] = 258;
  return {{"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"a b", "ab c", "b c"}}}},
          {"added_tokens", {{{"id", 259}, {"content", "</s>"}, {"special", true}, {"normalized", false}}}}};
}

BpeTokenizer made(const Document& file, const TextEnds& ends = {}) { return BpeTokenizer(file.dump(), ends); }

std::string refused(const Document& file) {
  return message_of<io::FormatError>([&] { made(file); });
}

class Golden : public testing::TestWithParam<const char*> {};

TEST_P(Golden, IdsAreThoseOfTheTokenizersPackage) {
  const auto tokenizer = read_tokenizer(golden(GetParam()));
  const auto cases = read_cases(golden(GetParam()) / "cases.bin");
  EXPECT_EQ(cases.size(), 2000U);
  EXPECT_EQ(differences(*tokenizer, cases), 0);
}

INSTANTIATE_TEST_SUITE_P(, Golden, testing::Values("gpt2", "llama3", "mistral", "mistral_v3", "qwen2", "smollm"),
                         [](const auto& kind) { return kind.param; });

TEST(BpeTokenizer, EndsOfATextComeFromTheTemplateTheConfigOrKnownNames) {
  const auto llama = read_tokenizer(golden("llama3"));
  EXPECT_EQ(llama->decode(Ids{llama->bos().value()}, true), "<|begin_of_text|>");
  EXPECT_EQ(llama->decode(Ids{llama->eos()}, true), "<|end_of_text|>");
  EXPECT_EQ(llama->pad(), llama->eos());
  const auto qwen = read_tokenizer(golden("qwen2") / "tokenizer.json");
  EXPECT_FALSE(qwen->bos());
  EXPECT_EQ(qwen->decode(Ids{qwen->eos()}, true), "<|endoftext|>");
  EXPECT_EQ(qwen->decode(Ids{qwen->eos()}), "");

  const Folder folder;
  std::filesystem::copy(golden("qwen2") / "tokenizer.json", folder.path() / "tokenizer.json");
  folder.put("tokenizer_config.json", R"({"eos_token": "<|im_end|>", "pad_token": {"content": "<|endoftext|>"}})");
  const auto chat = read_tokenizer(folder.path());
  EXPECT_EQ(chat->decode(Ids{chat->eos()}, true), "<|im_end|>");
  EXPECT_EQ(chat->decode(Ids{chat->pad()}, true), "<|endoftext|>");
  folder.put("tokenizer_config.json", R"({"eos_token": "<gone>"})");
  EXPECT_NE(message_of<io::FormatError>([&] {
              read_tokenizer(folder.path());
            }).find("the eos token '<gone>' is not in the vocabulary"),
            std::string::npos);
}

TEST(BpeTokenizer, EarlierMergesGoFirst) {
  const auto tokenizer = made(tiny());
  EXPECT_EQ(encoded(tokenizer, "abc"), (Ids{257}));
  EXPECT_EQ(encoded(tokenizer, "bcabcb"), (Ids{258, 257, 'b'}));
  EXPECT_EQ(encoded(tokenizer, "x</s>ab"), (Ids{'x', 259, 256}));
  auto file = tiny();
  file["model"]["merges"] = Document::parse(R"([["b", "c"], ["a", "b"], ["ab", "c"]])");
  EXPECT_EQ(encoded(made(file), "abc"), (Ids{'a', 258}));
  file["model"]["ignore_merges"] = true;
  EXPECT_EQ(encoded(made(file), "abc"), (Ids{257}));
  EXPECT_EQ(encoded(made(file), "abcabc"), (Ids{'a', 258, 'a', 258}));
  file["model"]["vocab"]["€"] = 300;
  EXPECT_EQ(encoded(made(file), "€"), (Ids{0xE2, 0x82, 0xAC})) << "a token that spells no bytes is no word";
}

TEST(BpeTokenizer, AddedTokensAreFoundLongestFirst) {
  auto file = tiny();
  file["added_tokens"].push_back({{"id", 260}, {"content", "<<"}, {"normalized", false}});
  file["added_tokens"].push_back({{"id", 261}, {"content", "<<<"}, {"normalized", true}});
  file["added_tokens"].push_back({{"id", 262}, {"content", "<<a"}, {"normalized", false}});
  const auto tokenizer = made(file);
  EXPECT_EQ(encoded(tokenizer, "<<<a"), (Ids{260, '<', 'a'}));
  EXPECT_EQ(encoded(tokenizer, "<<ab<"), (Ids{262, 'b', '<'}));
  EXPECT_EQ(tokenizer.decode(encoded(tokenizer, "<<</s>"), false), "<<");
  EXPECT_EQ(tokenizer.decode(encoded(tokenizer, "<<</s>"), true), "<<</s>");
  EXPECT_EQ(message_of<UsageError>([&] { tokenizer.decode(Ids{263}, true); }),
            "token 263 is not in the vocabulary of 263");
}

// Each character of the text stands for itself; [id] for an added token.
std::string cut(const AddedToken& token, std::string_view words) {
  AddedTokens tokens;
  tokens.add(token);
  std::string out;
  tokens.cut(
      words, [&](std::string_view plain) { out += text("'", plain, "'"); },
      [&](TokenId id) { out += text("[", id, "]"); });
  return out;
}

TEST(AddedTokens, TakeWhiteSpaceAndStandAloneIfTheySaySo) {
  const AddedToken plain{.id = 7, .content = "<m>"};
  EXPECT_EQ(cut(plain, "a <m> b"), "'a '[7]' b'");
  auto left = plain, right = plain, alone = plain;
  left.lstrip = true;
  right.rstrip = true;
  alone.single_word = true;
  EXPECT_EQ(cut(left, "a \t\u3000<m> b<m>"), "'a'[7]' b'[7]");
  EXPECT_EQ(cut(left, "  <m>  <m>"), "[7][7]");
  EXPECT_EQ(cut(right, "a <m>\u00a0\n b <m>"), "'a '[7]'b '[7]");
  EXPECT_EQ(cut(alone, "a<m> <m>b <m>, <m>"), "'a<m> <m>b '[7]', '[7]");
  EXPECT_EQ(cut(alone, "\U00013460<m>"), "'\U00013460<m>'") << "a letter since Unicode 16";
  EXPECT_EQ(cut(alone, "é<m> <m>_ \u200d<m> <m>٣ €<m>½"), "'é<m> <m>_ \u200d<m> <m>٣ €'[7]'½'");
}

TEST(BpeTokenizer, BytesWithoutATokenAreLeftOutOrUnknown) {
  auto file = tiny();
  for (const char* gone : {"x", "y"}) file["model"]["vocab"].erase(gone);
  EXPECT_EQ(encoded(made(file), "axyb xab"), (Ids{256, ' ', 256})) << "what remains is joined";
  file["model"]["vocab"]["<unk>"] = 300;
  file["model"]["unk_token"] = "<unk>";
  EXPECT_EQ(encoded(made(file), "axyb x"), (Ids{'a', 300, 300, 'b', ' ', 300}));
  file["model"]["fuse_unk"] = true;
  EXPECT_EQ(encoded(made(file), "axyb x"), (Ids{'a', 300, 'b', ' ', 300}));
  file["model"]["unk_token"] = "<gone>";
  EXPECT_EQ(refused(file), "the unk_token '<gone>' is not in the vocabulary");
  file["model"]["vocab"] = {{"<unk>", 1}};
  file["model"]["merges"] = Document::array();
  EXPECT_EQ(refused(file), "no byte has a token; is this a byte-level tokenizer?");
}

// Bytes as <0x00> to <0xFF>, ids 0-255, then "▁" 256, "a" 257, "▁a" 258 and an end.
Document characters() {
  Document vocab;
  for (unsigned b = 0; b < 256; ++b) {
    constexpr std::string_view kHex = "0123456789ABCDEF";
    vocab[text("<0x", kHex[b / 16], kHex[b % 16], ">")] = b;
  }
  vocab.update({{"▁", 256}, {"a", 257}, {"▁a", 258}});
  const auto step = [](const char* type, Document more) {
    more["type"] = type;
    return more;
  };
  const Document space{{"String", " "}}, mark{{"String", "▁"}};
  return {{"normalizer", step("Sequence", {{"normalizers",
                                            {step("Prepend", {{"prepend", "▁"}}),
                                             step("Replace", {{"pattern", space}, {"content", "▁"}})}}})},
          {"pre_tokenizer", nullptr},
          {"decoder", step("Sequence", {{"decoders",
                                         {step("Replace", {{"pattern", mark}, {"content", " "}}),
                                          step("ByteFallback", Document::object()), step("Fuse", Document::object()),
                                          step("Strip", {{"content", " "}, {"start", 1}, {"stop", 0}})}}})},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"▁ a"}}, {"byte_fallback", true}}},
          {"added_tokens", {{{"id", 259}, {"content", "</s>"}, {"special", true}, {"normalized", false}}}}};
}

TEST(BpeTokenizer, CharactersFallBackToBytes) {
  const auto tokenizer = made(characters());
  EXPECT_EQ(encoded(tokenizer, "a aé"), (Ids{258, 258, 0xC3, 0xA9}));
  EXPECT_EQ(encoded(tokenizer, "</s>a"), (Ids{259, 258})) << "a space before every part";
  EXPECT_EQ(tokenizer.decode(Ids{258, 258, 0xC3, 0xA9}, false), "a aé");
  EXPECT_EQ(tokenizer.decode(Ids{259, 258}, false), "a");
  EXPECT_EQ(tokenizer.decode(Ids{259, 258}, true), "</s> a");
  auto file = characters();
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}, {"split", false}};
  EXPECT_EQ(encoded(made(file), "a a</s>a"), (Ids{258, 258, 259, 257})) << "a space before the first part";
  EXPECT_EQ(encoded(made(file), "</s>a"), (Ids{259, 257}));
  EXPECT_EQ(encoded(made(file), " a"), (Ids{258}));
  file["pre_tokenizer"]["prepend_scheme"] = "never";
  EXPECT_EQ(encoded(made(file), "a a"), (Ids{257, 258}));
  file["pre_tokenizer"]["prepend_scheme"] = "always";
  EXPECT_EQ(encoded(made(file), "</s>a"), (Ids{259, 258}));
  file["model"]["merges"].push_back("a ▁");
  file["model"]["vocab"]["a▁"] = 260;
  EXPECT_EQ(encoded(made(file), "a  "), (Ids{258, 256, 256}));
  file["model"]["merges"] = {"a ▁"};
  EXPECT_EQ(encoded(made(file), "a "), (Ids{256, 260}));
  file["pre_tokenizer"]["split"] = true;
  EXPECT_EQ(encoded(made(file), "a "), (Ids{256, 257, 256})) << "no word reaches over a space";
}

TEST(BpeTokenizer, WhatIsNotReadOfCharactersIsRefused) {
  const auto with = [](const char* pointer, const Document& value) {
    auto file = characters();
    file[Document::json_pointer(pointer)] = value;
    return refused(file);
  };
  EXPECT_EQ(with("/model/byte_fallback", false),
            "the tokenizer has neither the pre_tokenizer ByteLevel nor byte_fallback; others are not read here");
  EXPECT_EQ(with("/pre_tokenizer", {{"type", "Digits"}}), "a Split or Digits without ByteLevel is not read here");
  EXPECT_EQ(with("/pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "last"}}),
            "the prepend_scheme of a Metaspace is none of first, always and never");
  EXPECT_EQ(with("/decoder", {{"type", "Metaspace"}}),
            "the decoder 'Metaspace' is not read here; expected Replace, ByteFallback, Fuse or Strip");
  EXPECT_EQ(with("/decoder/decoders/3/start", 2),
            "a Strip of the decoder that is not of one space at the start is not read here");
  EXPECT_EQ(with("/normalizer/normalizers/1/pattern", {{"Regex", " +"}}),
            "a Replace by a regular expression in the normalizer is not read here");
  auto file = characters();
  file["model"]["vocab"].erase("<0x0A>");
  EXPECT_EQ(refused(file), "byte_fallback needs the token '<0x0A>', which is none");
}

TEST(BpeTokenizer, LongAndShortWordsAreJoinedAlike) {
  // Every pair of a three-letter alphabet may join, and what is joined may join again.
  std::mt19937 dice(1);
  for (int round = 0; round < 200; ++round) {
    PairTable pairs(60);
    for (uint32_t rank = 0; rank < 60; ++rank) {
      const auto any = [&] { return static_cast<TokenId>(dice() % (3 + rank)); };
      pairs.add(any(), any(), {rank, static_cast<TokenId>(3 + rank)});
    }
    const Merges merges(std::move(pairs));
    for (int i = 0; i < 50; ++i) {
      Ids by_look(2 + dice() % Merges::kShort);
      for (auto& symbol : by_look) symbol = static_cast<TokenId>(dice() % 3);
      auto by_queue = by_look;
      merges.join_short(by_look, 2);
      merges.join_long(by_queue, 2);
      ASSERT_EQ(by_look, by_queue);
    }
  }
}

TEST(BpeTokenizer, AWordOfMegabytesTakesSeconds) {
  const auto tokenizer = read_tokenizer(golden("llama3"));
  for (const char* unit : {"a", " ", "\n", "=", "é"}) {
    std::string words;
    while (words.size() < 1'000'000) words += unit;
    EXPECT_EQ(tokenizer->decode(encoded(*tokenizer, words)), words);
  }
}

TEST(BpeTokenizer, WhatIsNotReadIsRefused) {
  EXPECT_EQ(encoded(made(tiny()), "a"), (Ids{'a'}));
  const auto with = [](const char* pointer, const Document& value) {
    auto file = tiny();
    file[Document::json_pointer(pointer)] = value;
    return refused(file);
  };
  EXPECT_EQ(with("/normalizer", {{"type", "NFKC"}}),
            "the normalizer 'NFKC' is not read here; expected NFC, Prepend or Replace");
  EXPECT_EQ(with("/pre_tokenizer", nullptr),
            "the tokenizer has neither the pre_tokenizer ByteLevel nor byte_fallback; others are not read here");
  EXPECT_EQ(with("/pre_tokenizer/type", "BertPreTokenizer"),
            "the pre_tokenizer 'BertPreTokenizer' is not read here; expected Split, Digits, ByteLevel or Metaspace");
  EXPECT_EQ(with("/decoder", {{"type", "WordPiece"}}), "the decoder 'WordPiece' is not read here; expected ByteLevel");
  EXPECT_EQ(with("/pre_tokenizer/add_prefix_space", true), "'add_prefix_space' is true, which is not read here");
  EXPECT_EQ(with("/model/type", "WordPiece"), "the model is not BPE, the only one read here");
  EXPECT_EQ(with("/model/dropout", 0.1), "'dropout' is set, which is not read here");
  EXPECT_EQ(with("/model/byte_fallback", true), "'byte_fallback' is true, which is not read here");
  EXPECT_EQ(with("/model/vocab/a", 98), "two tokens have the id 98");
  EXPECT_EQ(with("/model/vocab/zz", -1), "the id of 'zz' must be a whole number up to 16777215");
  EXPECT_EQ(with("/model/vocab/zz", 16777216), "the id of 'zz' must be a whole number up to 16777215");
  EXPECT_EQ(with("/model/merges/0", "a b c"), "a merge must be two tokens: [\"a\", \"b\"] or \"a b\"");
  EXPECT_EQ(with("/model/merges/0", "a d"), "a merge needs the token 'ad', which is none");
  EXPECT_EQ(with("/model/merges/0", "b c"), "the merge of 'b' and 'c' is there twice");
  EXPECT_EQ(with("/added_tokens/0/id", 97), "the id 97 of the added token '</s>' is another token's");
  EXPECT_EQ(with("/added_tokens/0/content", "ab"),
            "the id 259 of the added token 'ab' is not the one of the vocabulary");
  EXPECT_EQ(with("/added_tokens/0/content", "x</s>"),
            "it isn't known which token ends a text; say \"eos_token\" in a tokenizer_config.json");
  EXPECT_EQ(with("/post_processor", {{"type", "BertProcessing"}}),
            "the post_processor 'BertProcessing' is not read here; TemplateProcessing and ByteLevel are");
  EXPECT_EQ(message_of<io::FormatError>([] { BpeTokenizer("{\"a\":1,\"a\":2}", {}); }),
            "the file has the key 'a' twice");
}

TEST(BpeTokenizer, FaultsNameTheFile) {
  const Folder folder;
  const auto file = folder.put("tokenizer.json", "{}");
  EXPECT_EQ(message_of<io::FormatError>([&] { read_tokenizer(folder.path()); }),
            text(file, " is not a tokenizer that is read here: 'model' must be an object"));
  EXPECT_EQ(message_of<UsageError>([&] { read_tokenizer(folder.path() / "gone"); }),
            text("no tokenizer at ", folder.path() / "gone", "; expected a tokenizer.json or its folder"));
}

TEST(ByteLevel, EveryByteHasACharacterOfItsOwn) {
  std::string all;
  for (int b = 0; b < 256; ++b) {
    const auto token = token_of_byte(static_cast<unsigned char>(b));
    EXPECT_EQ(bytes_of_token(token), std::string(1, static_cast<char>(b)));
    all += token;
  }
  EXPECT_EQ(bytes_of_token(all)->size(), 256U);
  EXPECT_EQ(token_of_byte(' '), "Ġ");
  EXPECT_EQ(token_of_byte('\n'), "Ċ");
  for (const char* none : {" ", "\n", "ń", "Ģx\xC4", "€", "\xAD"})
    EXPECT_EQ(bytes_of_token(none).has_value(), false) << none;
}

TEST(Nfc, ComposesAndOrders) {
  std::string storage;
  EXPECT_EQ(nfc("plain é", storage), "plain é");
  EXPECT_EQ(nfc("e\u0301", storage), "é");
  EXPECT_EQ(nfc("a\u0308\u0323", storage), "ạ\u0308");
  EXPECT_EQ(nfc("\u1100\u1161\u11a8", storage), "각");
  EXPECT_EQ(nfc("\u212b\u0958", storage), "Å\u0915\u093c");
  EXPECT_EQ(nfc("e\u0301\U0001E08F\u0323\u0334e\u0301", storage), "é\U0001E08F\u0334\u0323é");  // since Unicode 15
  EXPECT_EQ(nfc("\U00011935\U00011930", storage), "\U00011935\U00011930");                      // since Unicode 13
}

TEST(TextDataset, TokensOfATokenizer) {
  const Folder folder;
  folder.put("a.jsonl", "{\"text\":\"On Monday\"}\n{\"text\":\"<|eot_id|> été\"}");
  auto config = folder.config();
  config.tokenizer = golden("llama3").string();
  const auto data = open_dataset(config, 12, Task::lm);
  const auto batch = data->batch(std::array<int64_t, 2>{0, 1});
  for (int64_t i = 0; i < 2; ++i) {
    const auto wide = row(batch.ids_BT, i);
    const Ids ids(wide.begin(), wide.end());
    EXPECT_EQ(ids[0], data->tokenizer().bos());
    EXPECT_EQ(ids.back(), data->tokenizer().pad());
    EXPECT_EQ(data->tokenizer().decode(ids), i == 0 ? "On Monday" : " été");
  }
  EXPECT_FALSE(open_dataset(folder.config(), 12, Task::lm)->store().reused());  // bytes are another store
}

}  // namespace
}  // namespace shade::data
