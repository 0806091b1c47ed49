// Generation with kept keys and values beside generation that computes every position anew, and the draws of tokens.
#include "shade/serve/generate.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>

#include "shade/models/registry.h"
#include "shade/serve/valid_text.h"
#include "tests/support/fault.h"

namespace shade::serve {
namespace {

using Tokens = std::vector<data::TokenId>;

std::unique_ptr<models::Model> language_model() {
  auto model = models::make_model("llama-nano", {}, {.task = models::Task::lm});
  nn::bind_all(model->parameters(), at::kFloat, 1);
  for (auto& weight : model->parameters().weights())  // as initialised, it would repeat one token
    weight.bind(weight.value() * (weight.shape().size() > 1 ? 8 : 1));
  return model;
}

Tokens without_cache(models::Model& model, const Tokens& prompt, int64_t tokens) {
  auto ids = at::tensor(std::vector<int64_t>(prompt.begin(), prompt.end())).unsqueeze(0);
  for (int64_t i = 0; i < tokens; ++i)
    ids = at::cat({ids, model.outputs({.ids_BT = ids}).select(1, ids.size(1) - 1).argmax(-1, true)}, 1);
  const auto* id = ids.data_ptr<int64_t>();
  return {id + prompt.size(), id + ids.numel()};
}

const std::vector<Tokens> kPrompts{{1, 2, 3, 4}, {9, 8, 7, 6}, {5, 5, 5, 5}};

TEST(Generate, GreedyTokensAreThoseOfTheFullForward) {
  const auto model = language_model();
  const auto together = generate(*model, kPrompts, {.max_new_tokens = 20, .ends = {}, .sampling = {}});
  for (size_t i = 0; i < kPrompts.size(); ++i) {
    const auto expected = without_cache(*model, kPrompts[i], 20);
    EXPECT_GT(std::set(expected.begin(), expected.end()).size(), 3u) << "the model repeats itself";
    EXPECT_EQ(together[i].tokens, expected);
    EXPECT_FALSE(together[i].ended);
    EXPECT_EQ(generate(*model, {kPrompts[i]}, {.max_new_tokens = 20, .ends = {}, .sampling = {}})[0].tokens, expected);
  }
}

TEST(Generate, ATextEndsWithItsEndToken) {
  const auto model = language_model();
  const auto whole = without_cache(*model, kPrompts[0], 20);
  const auto end = whole[6];
  const auto first = std::find(whole.begin(), whole.end(), end);
  std::vector<std::pair<size_t, data::TokenId>> seen;
  const auto made = generate(*model, kPrompts, {.max_new_tokens = 20, .ends = {end}, .sampling = {}},
                             [&](size_t row, data::TokenId token) { seen.emplace_back(row, token); });
  EXPECT_TRUE(made[0].ended);
  EXPECT_EQ(made[0].tokens, Tokens(whole.begin(), first));
  for (size_t i = 0; i < made.size(); ++i) {
    Tokens heard;
    for (const auto& [row, token] : seen)
      if (row == i) heard.push_back(token);
    EXPECT_EQ(heard, made[i].tokens);
  }
}

TEST(Generate, RefusesWhatTheModelCannotHold) {
  const auto model = language_model();
  const auto most = model->text_traits()->max_positions;
  const auto said =
      test::fault([&] { generate(*model, {{1, 2}}, {.max_new_tokens = most, .ends = {}, .sampling = {}}); });
  EXPECT_NE(said.find(text("--max-new-tokens ", most - 2)), std::string::npos) << said;
  const Tokens longest(static_cast<size_t>(most), 1);
  EXPECT_NE(test::fault([&] {
              generate(*model, {longest}, {.max_new_tokens = 1, .ends = {}, .sampling = {}});
            }).find(text("shorten the prompt to at most ", most - 1, " tokens")),
            std::string::npos);
  EXPECT_NE(test::fault([&] { generate(*model, {{}}, {}); }).find("no token"), std::string::npos);
  EXPECT_NE(test::fault([&] { generate(*model, {{1}, {1, 2}}, {}); }).find("same number"), std::string::npos);
  const auto classifier = models::make_model("llama-nano", {}, {.task = models::Task::classify});
  EXPECT_NE(test::fault([&] { generate(*classifier, {{1}}, {}); }).find("generates no text"), std::string::npos);
}

// How often each of 4 tokens is drawn.
std::map<int64_t, double> shares(const SamplingOptions& options) {
  constexpr int64_t kDraws = 20'000;
  const auto chances = at::tensor(std::vector<double>{0.1, 0.4, 0.2, 0.3});
  Sampler sampler(options);
  const auto drawn = sampler(chances.log().unsqueeze(0).expand({kDraws, 4}));
  std::map<int64_t, double> out;
  for (int64_t i = 0; i < kDraws; ++i) out[drawn[i].item<int64_t>()] += 1.0 / kDraws;
  return out;
}

void expect_shares(const SamplingOptions& options, const std::map<int64_t, double>& expected) {
  const auto found = shares(options);
  EXPECT_EQ(found.size(), expected.size());
  for (const auto& [token, share] : expected) EXPECT_NEAR(found.count(token) ? found.at(token) : 0, share, 0.02);
}

TEST(Sampler, DrawsByTemperatureTopKAndTopP) {
  expect_shares({.temperature = 0}, {{1, 1.0}});
  expect_shares({.temperature = 1}, {{0, 0.1}, {1, 0.4}, {2, 0.2}, {3, 0.3}});
  expect_shares({.temperature = 0.5}, {{0, 1 / 30.0}, {1, 16 / 30.0}, {2, 4 / 30.0}, {3, 9 / 30.0}});
  expect_shares({.temperature = 1, .top_k = 2}, {{1, 4 / 7.0}, {3, 3 / 7.0}});
  expect_shares({.temperature = 1, .top_p = 0.65}, {{1, 4 / 7.0}, {3, 3 / 7.0}});
  expect_shares({.temperature = 1, .top_p = 0.75}, {{1, 4 / 9.0}, {3, 3 / 9.0}, {2, 2 / 9.0}});
  expect_shares({.temperature = 1, .top_p = 0}, {{1, 1.0}});
}

TEST(Sampler, TheSeedDecides) {
  const auto logits = at::zeros({64, 1000});
  const auto drawn = [&](uint64_t seed) { return Sampler({.temperature = 1, .seed = seed})(logits); };
  EXPECT_TRUE(at::equal(drawn(3), drawn(3)));
  EXPECT_FALSE(at::equal(drawn(3), drawn(4)));
}

// As transformers has it, where one generator draws for all prompts of a file.
TEST(Generate, EqualPromptsGetDifferentSamples) {
  const auto model = language_model();
  const GenerateOptions options{.max_new_tokens = 20, .ends = {}, .sampling = {.temperature = 1, .seed = 3}};
  const auto both = [&] {
    Sampler sampler(options.sampling);
    auto out = generate(*model, {kPrompts[0]}, options, sampler)[0].tokens;
    const auto second = generate(*model, {kPrompts[0]}, options, sampler)[0].tokens;
    EXPECT_NE(out, second);
    out.insert(out.end(), second.begin(), second.end());
    return out;
  };
  const auto first = both();
  EXPECT_EQ(both(), first) << "the seed decides";
  EXPECT_EQ(generate(*model, {kPrompts[0]}, options)[0].tokens, Tokens(first.begin(), first.begin() + 20));
}

// Each as Python's bytes.decode(errors="replace") has it.
TEST(ValidText, WhatIsNoCharacterIsReplaced) {
  const std::string r = "\xEF\xBF\xBD";
  const std::pair<std::string, std::string> cases[] = {
      {"", ""},
      {"a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", "a\u00E9\u20AC\U0001F600"},
      {"\xC3", r},
      {"\xC3z", r + "z"},
      {"\xE2\x82z", r + "z"},
      {"\xF0\x9F\x98", r},
      {"\x80\x80", r + r},
      {"\xC0\xAF", r + r},
      {"\xED\xA0\x80", r + r + r},
      {"\xF4\x90\x80\x80", r + r + r + r},
      {"\xFF\xE2\x82\xAC", r + "\u20AC"}};
  for (const auto& [bytes, expected] : cases) EXPECT_EQ(valid_text(bytes), expected);
}

// Printed as it grows, byte by byte, a text is the same as printed at once, and valid after every byte.
TEST(ValidText, AGrowingTextIsHeldBackWithinACharacter) {
  const std::string whole = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xE2\x82z\xC3\xFF\xED\xA0\x80\xF0\x9F";
  std::string shown;
  size_t printed = 0;
  for (size_t length = 1; length <= whole.size(); ++length) {
    const auto words = std::string_view(whole).substr(0, length);
    const auto end = settled_length(words);
    ASSERT_GE(end, printed);
    EXPECT_LE(length - end, 3u);
    shown += valid_text(words.substr(printed, end - printed));
    printed = end;
    EXPECT_EQ(valid_text(shown), shown);
  }
  EXPECT_EQ(shown + valid_text(std::string_view(whole).substr(printed)), valid_text(whole));
  EXPECT_EQ(settled_length("ab\xF0\x9F\x98"), 2u);
  EXPECT_EQ(settled_length("ab\xFF"), 3u) << "no character begins with it";
}

TEST(Generate, TokensThatTheTokenizerLacksStandForNothing) {
  EXPECT_EQ(decoded(data::ByteTokenizer(), {'a', 259, 'b', 100'000}), "ab");
}

TEST(Generate, DefaultsAreThoseOfTheModel) {
  OpenedModel model;
  model.tokenizer = std::make_shared<data::ByteTokenizer>();
  EXPECT_EQ(generation_defaults(model).ends, Tokens{data::ByteTokenizer::kEos});
  EXPECT_EQ(generation_defaults(model).sampling.temperature, 0);
  model.generation = {{"eos_token_id", {7, 8}}, {"temperature", 0.6}};
  EXPECT_EQ(generation_defaults(model).ends, (Tokens{7, 8}));
  EXPECT_EQ(generation_defaults(model).sampling.temperature, 0) << "do_sample is not set";
  model.generation = {{"eos_token_id", 7}, {"do_sample", true}, {"temperature", 0.6}, {"top_p", 0.9}};
  const auto drawn = generation_defaults(model);
  EXPECT_EQ(drawn.ends, Tokens{7});
  EXPECT_EQ(drawn.sampling.temperature, 0.6);
  EXPECT_EQ(drawn.sampling.top_p, 0.9);
  EXPECT_EQ(drawn.sampling.top_k, 50) << "as transformers has it";
}

}  // namespace
}  // namespace shade::serve
