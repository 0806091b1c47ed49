#include "shade/cli/prompts.h"

#include <filesystem>
#include <iostream>
#include <iterator>

#include "shade/base/error.h"
#include "shade/base/input_text.h"
#include "shade/base/strings.h"
#include "shade/data/chat/chat_template.h"

namespace shade::cli {
namespace {

std::string all_of(std::istream& in) { return {std::istreambuf_iterator<char>(in), {}}; }

bool has_text(const Json& object, const char* key) {
  return object.is_object() && object.contains(key) && object[key].is_string();
}

std::vector<data::Message> messages_of(const Json& turns, const std::string& where) {
  SHADE_REQUIRE(turns.is_array() && !turns.empty(), where, ": messages must be a list of turns");
  std::vector<data::Message> out;
  for (const auto& turn : turns) {
    SHADE_REQUIRE(has_text(turn, "role") && has_text(turn, "content"), where,
                  ": a turn must have a text \"role\" and a text \"content\"");
    out.push_back({turn["role"], turn["content"]});
  }
  return out;
}

}  // namespace

Json Prompt::json() const {
  if (messages.empty()) return {{"prompt", words}};
  auto turns = Json::array();
  for (const auto& [role, content] : messages) turns.push_back({{"role", role}, {"content", content}});
  return {{"messages", turns}};
}

void PromptConfig::declare(Fields& f) {
  f.add("prompt", prompt, {.help = "text to continue or, with --chat, to answer", .flags = {"--prompt"}});
  f.add(
      "prompt_file", prompt_file,
      {.help = "file with the prompt, or .jsonl file with a \"prompt\" or \"messages\" on each line; -: standard input",
       .flags = {"--prompt-file"}});
  f.add("chat", chat,
        {.help = "whether prompts are a user's turns, formatted by the model's chat template", .flags = {"--chat"}});
  f.add(
      "system", system,
      {.help = "system message before the prompts, with --chat", .flags = {"--system"}, .needs = {{"generate.chat"}}});
  f.add("chat_template", chat_template,
        {.help =
             text("name of the chat template, in place of the model's own: ", join(data::chat_template_names(), ", ")),
         .flags = {"--chat-template"}});
}

std::vector<Prompt> PromptConfig::read_lines(const std::string& content) const {
  std::vector<Prompt> out;
  int64_t number = 0;
  for (const auto& line : split(content, '\n')) {
    ++number;
    if (trim(line).empty()) continue;
    const auto where = text(prompt_file, ", line ", number);
    const auto record = parse_json(line);
    if (record.is_object() && record.contains("messages")) {
      out.push_back({"", messages_of(record["messages"], where)});
      continue;
    }
    SHADE_REQUIRE(has_text(record, "prompt"), where, " has neither a text \"prompt\" nor \"messages\"");
    out.push_back({record["prompt"], {}});
  }
  return out;
}

std::vector<Prompt> PromptConfig::read() const {
  SHADE_REQUIRE(prompt.empty() != prompt_file.empty(),
                "expected a prompt (--prompt TEXT) or a file (--prompt-file FILE, - for standard input), found ",
                prompt.empty() ? "neither" : "both");
  std::vector<Prompt> out;
  if (!prompt.empty()) {
    out = {{prompt, {}}};
  } else if (prompt_file == "-") {
    out = {{all_of(std::cin), {}}};
  } else {
    SHADE_REQUIRE(std::filesystem::exists(prompt_file), "there is no prompt file ", prompt_file);
    const auto content = read_text(prompt_file, GiB(1));
    out = prompt_file.ends_with(".jsonl") ? read_lines(content) : std::vector<Prompt>{{content, {}}};
  }
  SHADE_REQUIRE(!out.empty(), "no prompt in ", prompt_file);
  for (auto& each : out) {
    if (!chat || !each.messages.empty()) continue;
    if (!system.empty()) each.messages.push_back({"system", system});
    each.messages.push_back({"user", std::move(each.words)});
  }
  return out;
}

std::vector<std::vector<data::TokenId>> PromptConfig::encoded(const std::vector<Prompt>& prompts,
                                                              const serve::OpenedModel& model) const {
  const data::ChatTemplate writer(model.tokenizer_place,
                                  chat_template.empty() ? model.data.chat_template : chat_template, *model.tokenizer);
  std::vector<std::vector<data::TokenId>> out;
  for (const auto& each : prompts) {
    auto& ids = out.emplace_back();
    if (each.messages.empty()) {
      if (model.tokenizer->bos()) ids.push_back(*model.tokenizer->bos());
      model.tokenizer->encode(each.words, ids);
      continue;
    }
    std::string words;
    for (const auto& part : writer.parts(each.messages, /*generation_prompt=*/true)) words += part.text;
    model.tokenizer->encode(words, ids);
  }
  return out;
}

}  // namespace shade::cli
