// Greedy generation of a real pretrained model (tools/real_model) here and in transformers: 64 tokens of 20 prompts.
#include <gtest/gtest.h>

#include <filesystem>

#include "shade/base/json.h"
#include "shade/data/chat/chat_template.h"
#include "shade/serve/generate.h"
#include "tests/io/scratch.h"
#include "tests/support/process.h"

namespace shade::serve {
namespace {

const std::vector<std::string> kTexts{
    "The harbour was", "A package that", "Once upon a time",   "def fibonacci(n):", "The capital of France is",
    "In 1969,",        "Water boils at", "Dear Sir or Madam,", "1, 2, 3, 4,",       "Größe und"};
const std::vector<std::string> kQuestions{
    "What is a harbour?",         "Write a haiku about salt.",           "List three colours.",
    "What is 12 times 7?",        "Translate 'good morning' to French.", "Why is the sky blue?",
    "Name a mountain.",           "Give me a recipe for bread.",         "Who wrote Hamlet?",
    "Explain what a checksum is."};

TEST(GeneratePeer, GreedyTokensAreThoseOfTransformers) {
  const auto folder = test::source_root() + "/.deps/models/smollm2-135m",
             python = test::source_root() + "/.deps/peers/bin/python";
  if (!std::filesystem::exists(folder) || !std::filesystem::exists(python))
    GTEST_SKIP() << "no model or no transformers: run tools/bootstrap peers and tools/real_model";
  const auto model = open_model(folder);
  const data::ChatTemplate chat(model.tokenizer_place, "", *model.tokenizer);
  auto options = generation_defaults(model);
  options.max_new_tokens = 64;
  Json prompts = Json::array();
  const auto add = [&](const Json& prompt, const std::string& words, bool framed) {
    std::vector<data::TokenId> ids;
    if (!framed && model.tokenizer->bos()) ids.push_back(*model.tokenizer->bos());
    model.tokenizer->encode(words, ids);
    const auto made = generate(*model.model, {ids}, options)[0];
    prompts.push_back({{"prompt", prompt}, {"ids", ids}, {"tokens", made.tokens}, {"ended", made.ended}});
  };
  for (const auto& words : kTexts) add(words, words, false);
  for (const auto& question : kQuestions) {
    const data::Message turn{"user", question};
    std::string words;
    for (const auto& part : chat.parts({&turn, 1}, /*generation_prompt=*/true)) words += part.text;
    add({{{"role", "user"}, {"content", question}}}, words, true);
  }
  const io::Scratch scratch;
  write_json(scratch.path() / "generated.json", {{"max_new_tokens", options.max_new_tokens}, {"prompts", prompts}});
  const auto seen = test::run({python, test::source_root() + "/tools/golden/check_generation.py", folder,
                               (scratch.path() / "generated.json").string()},
                              {.environment = {{"PYTHONDONTWRITEBYTECODE", "1"}}, .limit = Seconds(500)});
  EXPECT_EQ(seen.status, 0) << seen.output;
  EXPECT_NE(seen.output.find("20 prompts continued alike"), std::string::npos) << seen.output;
  if (std::getenv("SHADE_VERBOSE") != nullptr) std::puts(seen.output.c_str());
}

}  // namespace
}  // namespace shade::serve
