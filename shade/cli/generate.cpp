// shade generate: a trained model continues prompts, or draws images.

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <iterator>

#include "shade/base/config.h"
#include "shade/base/effect.h"
#include "shade/base/error.h"
#include "shade/base/files.h"
#include "shade/base/input_text.h"
#include "shade/base/json.h"
#include "shade/base/strings.h"
#include "shade/base/terminal.h"
#include "shade/base/visible_text.h"
#include "shade/cli/drawn_images.h"
#include "shade/cli/serving.h"
#include "shade/cli/verb.h"
#include "shade/data/chat/chat_template.h"
#include "shade/data/record.h"
#include "shade/serve/generate.h"
#include "shade/serve/opened_model.h"
#include "shade/serve/valid_text.h"

namespace shade::cli {
namespace {

// What shade generate continues: texts, or conversations that a model answers.
struct Prompt {
  std::string words;
  std::vector<data::Message> messages;  // of a conversation, which words are then nothing of

  Json json() const;  // {"prompt": ...} or {"messages": ...}
};

struct PromptConfig {
  std::string prompt, prompt_file, system, chat_template;
  bool chat = false;

  void declare(Fields& f);
  std::vector<Prompt> read() const;  // throws UsageError

  // As the model reads them: texts after its bos, conversations as its chat template writes them.
  std::vector<std::vector<data::TokenId>> encoded(const std::vector<Prompt>& prompts,
                                                  const serve::OpenedModel& model) const;

 private:
  std::vector<Prompt> read_lines(const std::string& content) const;
};

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

Json Prompt::json() const {
  if (messages.empty()) return {{"prompt", words}};
  auto turns = Json::array();
  for (const auto& [role, content] : messages) turns.push_back({{"role", role}, {"content", content}});
  return {{"messages", turns}};
}

void PromptConfig::declare(Fields& f) {
  f.add("prompt", prompt,
        {.help = "text to continue or, with --chat, to answer", .flags = {"--prompt"}, .needs = {needs_texts()}});
  f.add(
      "prompt_file", prompt_file,
      {.help = "file with the prompt, or .jsonl file with a \"prompt\" or \"messages\" on each line; -: standard input",
       .flags = {"--prompt-file"},
       .needs = {needs_texts()}});
  f.add("chat", chat,
        {.help = "whether prompts are a user's turns, formatted by the model's chat template",
         .flags = {"--chat"},
         .needs = {needs_texts()}});
  f.add(
      "system", system,
      {.help = "system message before the prompts, with --chat", .flags = {"--system"}, .needs = {{"generate.chat"}}});
  f.add("chat_template", chat_template,
        {.help =
             text("name of the chat template, in place of the model's own: ", join(data::chat_template_names(), ", ")),
         .flags = {"--chat-template"},
         .needs = {needs_texts()}});
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

struct GenerateConfig {
  std::string tokenizer;
  int64_t max_new_tokens = 256;
  double temperature = 0, top_p = 1;
  int64_t top_k = 0, seed = 0;

  void declare(Fields& f) {
    f.add("tokenizer", tokenizer,
          {.help = "tokenizer.json or its folder, in place of the model's own; bytes: every byte is a token",
           .flags = {"--tokenizer"},
           .needs = {needs_texts()}});
    f.add("max_new_tokens", max_new_tokens,
          {.help = "largest length of a continuation",
           .unit = "tokens",
           .min = 1,
           .flags = {"--max-new-tokens", "--max-tokens"},
           .needs = {needs_texts()}});
    const std::string by_model = "the model's generation_config.json if it has do_sample, otherwise ";
    f.add("temperature", temperature,
          {.help = "sampling temperature, the divisor of the logits; 0: always the most probable token",
           .min = 0,
           .flags = {"--temperature"},
           .if_not_given = by_model + "0",
           .needs = {needs_texts()}});
    f.add("top_p", top_p,
          {.help = "total probability of the most probable tokens that are drawn from",
           .min = 0,
           .max = 1,
           .flags = {"--top-p"},
           .if_not_given = by_model + "1",
           .needs = {needs_texts()}});
    f.add("top_k", top_k,
          {.help = "number of the most probable tokens that are drawn from; 0: all",
           .min = 0,
           .flags = {"--top-k"},
           .if_not_given = by_model + "0",
           .needs = {needs_texts()}});
    f.add(
        "seed", seed,
        {.help = "seed of the random draws, which all prompts share in their order; the same seed and prompts draw the "
                 "same tokens, the same seed and class the same images",
         .min = 0,
         .flags = {"--seed"}});
  }

  serve::GenerateOptions options(const serve::OpenedModel& model, const Config& config) const {
    auto out = serve::generation_defaults(model);
    out.max_new_tokens = max_new_tokens;
    out.sampling.seed = static_cast<uint64_t>(seed);
    if (config.given("generate.temperature")) out.sampling.temperature = temperature;
    if (config.given("generate.top_p")) out.sampling.top_p = top_p;
    if (config.given("generate.top_k")) out.sampling.top_k = top_k;
    // Only here is the temperature known: without --temperature it is that of the model's generation_config.json.
    for (const auto& field : config.fields()) {
      const auto& key = field.key();
      const bool draws = key == "generate.top_p" || key == "generate.top_k" || key == "generate.seed";
      SHADE_REQUIRE(!draws || out.sampling.temperature > 0 || field.str() == field.standard(),
                    field.spellings().front(),
                    " has no effect at temperature 0, which always takes the most probable token; set --temperature");
    }
    return out;
  }
};

// Prints a text as it grows: whole characters alone, U+FFFD for what is none, and on a terminal nothing that moves its
// cursor.
class Stream {
 public:
  explicit Stream(const data::Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  void add(data::TokenId token) {
    tokens_.push_back(token);
    decoded_ = serve::decoded(*tokenizer_, tokens_);
    print_to(serve::settled_length(decoded_));
  }
  void finish() {
    print_to(decoded_.size());
    std::puts("");
    std::fflush(stdout);  // before the speed, which goes to standard error
  }
  std::string shown() const { return serve::valid_text(decoded_); }

 private:
  void print_to(size_t end) {
    if (end <= printed_) return;
    const auto fresh = serve::valid_text(std::string_view(decoded_).substr(printed_, end - printed_));
    std::fputs((is_terminal(stdout) ? visible_lines(fresh) : fresh).c_str(), stdout);
    std::fflush(stdout);
    printed_ = end;
  }

  const data::Tokenizer* tokenizer_;
  std::vector<data::TokenId> tokens_;
  std::string decoded_;
  size_t printed_ = 0;
};

// What was made in how long; the first token of a text is made with its prompt.
struct Speed {
  int64_t texts = 0, prompt_tokens = 0, tokens = 0;
  Seconds prompts{0}, rest{0};

  double tokens_per_second() const { return tokens > texts ? static_cast<double>(tokens - texts) / rest.count() : 0; }
  std::string str() const {
    return text(tokens, " tokens", tokens > texts ? text(", ", significant(tokens_per_second()), " tokens/s") : "",
                " after ", prompt_tokens, " tokens of prompt in ", to_string(prompts));
  }
};

struct Generate final : LineVerb {
  ServedModel served;
  PromptConfig from;
  GenerateConfig generate;
  ImagesConfig images;
  Config config;

  Generate()
      : LineVerb(
            "generate", "Continues prompts with a trained model, token by token, or draws images of its classes.",
            "shade generate runs/llama_nano --prompt 'The ship'\n"
            "  shade generate models/instruct --chat --prompt 'What is a harbour?'\n"
            "  shade generate exported --prompt-file prompts.jsonl --temperature 0.7 --top-p 0.9 --json texts.json\n"
            "  shade generate runs/dit --images-per-class 16 --output-dir drawn") {
    config.add("model", served);
    config.add("generate", from);
    config.add("generate", generate);
    config.add("images", images);
    served.add_argument(line);
    line.add(config);
  }

  int run(const Arguments& arguments) override;
  Json continue_prompts(const serve::OpenedModel& model, const std::vector<Prompt>& prompts) const;
};

}  // namespace

std::unique_ptr<Invocation> declare_generate() { return std::make_unique<Generate>(); }

int Generate::run(const Arguments& arguments) {
  if (const auto status = line.parse(arguments)) return *status;
  served.check(line);
  const auto kind = serve::kind_of(served.place);
  line.require_effects({{kModelKind, {kind}}});
  const bool draws = kind == kImageModel;
  const auto prompts = draws ? std::vector<Prompt>() : from.read();
  const auto model = served.open(generate.tokenizer);
  Json out{{"model", without_folders(model.title)}};
  out.update(draws ? images.draw(model, static_cast<uint64_t>(generate.seed)) : continue_prompts(model, prompts));
  out["config"] = without_folders(json_values(config));
  // A prompt may have bytes that are no UTF-8.
  if (!line.json_file.empty())
    write_output(line.json_file, out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  return 0;
}

Json Generate::continue_prompts(const serve::OpenedModel& model, const std::vector<Prompt>& prompts) const {
  const auto options = generate.options(model, config);
  const auto encoded = from.encoded(prompts, model);

  Json texts = Json::array();
  Speed speed;
  serve::Sampler sampler(options.sampling);  // one for all prompts: equal prompts get different samples
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (prompts.size() > 1) std::printf("--- %zu of %zu\n", i + 1, prompts.size());
    const auto& ids = encoded[i];
    Stream stream(*model.tokenizer);
    const auto begin = Clock::now();
    auto first = begin;
    const auto made = serve::generate(*model.model, {ids}, options, sampler, [&](size_t, data::TokenId token) {
      if (first == begin) first = Clock::now();
      stream.add(token);
    });
    const auto end = Clock::now();
    stream.finish();
    speed.texts += 1;
    speed.prompt_tokens += std::ssize(ids);
    speed.tokens += std::ssize(made[0].tokens);
    speed.prompts += (first == begin ? end : first) - begin;
    speed.rest += first == begin ? Seconds(0) : Seconds(end - first);
    auto& result = texts.emplace_back(prompts[i].json());
    result.update(
        {{"text", stream.shown()}, {"token_ids", made[0].tokens}, {"prompt_token_ids", ids}, {"ended", made[0].ended}});
  }
  std::fprintf(stderr, "%s\n", speed.str().c_str());
  return {{"texts", texts}, {"tokens", speed.tokens}, {"tokens_per_second", speed.tokens_per_second()}};
}

}  // namespace shade::cli
