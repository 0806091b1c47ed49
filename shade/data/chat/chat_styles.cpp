#include "shade/data/chat/chat_styles.h"

#include <algorithm>

#include "shade/base/error.h"
#include "shade/hash/digest.h"
#include "shade/io/errors.h"

namespace shade::data {

// Name, turns, tokens, other delimiters, bos, eos, digests. A text that is published with line ends and with \n in its
// strings has two.
std::span<const ChatStyle> chat_styles() {
  using System = MistralStyle::System;
  using Words = std::vector<std::string_view>;
  const Words chatml = {"<|im_start|>", "<|im_end|>"};
  const Words llama3 = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};
  const Words inst = {"[INST]", "[/INST]"};
  const Words gemma = {"<start_of_turn>", "<end_of_turn>"};
  static const std::vector<ChatStyle> kStyles = {
      {"chatml",
       ChatmlStyle{},
       chatml,
       {},
       "",
       "",
       {"77a24678cebb3390e9502036ce9564cb538d26bf99d15145d6943eee367fce73",
        "827b1b44d7e035c3f79e595cfd2472e7f08a2764ccbb98d1d4e95d96f882ae0b",
        "d3a0def017a2375da38d22f044e3ec02719b4733de9697f5dd023c0480456d6a"}},
      {"qwen1.5",
       ChatmlStyle{.default_system = "You are a helpful assistant"},
       chatml,
       {},
       "",
       "",
       {"1f04611ec69fb1a6746935e616d8597d9bf7f8903a922c3d2d31753aa1cc1ec3",
        "152f6d8ab61d28584695ca194e6d06fb7a9110d612edace8718d5165037db76d"}},
      {"qwen2",
       ChatmlStyle{.default_system = "You are a helpful assistant."},
       chatml,
       {},
       "",
       "",
       {"896ac243b6a3cc09bb12e5e8b9f207e2b543f4c6163d26f23af06ee44dff2fa4",
        "7cb398e81113b4aee262bd9621f9186062cf6d071f87ac2c0f735f064e2a3e50"}},
      {"qwen2.5",
       ChatmlStyle{.default_system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."},
       chatml,
       {},
       "",
       "",
       {"ef0829bf42c538a9bbd234c9664d95d9504fb8e6939b293dea2c595107b35170"}},
      {"qwen3",
       ChatmlStyle{.thinking = true},
       chatml,
       {},
       "",
       "",
       {"9f5090d79b6197a19b77603444b9cf5282ab6ca2ca628f365f76bd94ce22418d",
        "b9dfc3e866d8e1360059a0d3bb3094ef035279d0a5bdb60bab369537cf0b9ece"}},
      {"smollm2",
       ChatmlStyle{.default_system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"},
       chatml,
       {},
       "",
       "",
       {"fc25cbbc1058cef0be97e799f5d68b257a6598c66752487c3d8613284493ac46",
        "786dc803909c78d9d03264ecb6d82c6bcbbe28070b7e342b474af75e0d1c93db"}},
      {"llama3",
       Llama3Style{},
       llama3,
       {},
       "<|begin_of_text|>",
       "",
       {"fa98af1438b315b19a43afaff38f0474a3cbcae6e8bead3aea4ab7d8d841e8ca",
        "05facb19f527d33e1ba2066abb9656dc46ff7f61a33d5419bbd0f773d3519478"}},
      {"llama3.1",
       Llama3Style{.dated = true},
       llama3,
       {},
       "<|begin_of_text|>",
       "",
       {"51e68c9f989467577fb67f8e1d45e58110c1ca737735c3662bd62c2d93112828",
        "57a8c20780bfb41e320b31e7d20285cb33a0a23b65ddf18c92e65feadb207e71"}},
      {"mistral-v0.1",
       MistralStyle{"[INST] ", " [/INST]", "", " "},
       {},
       inst,
       "<s>",
       "</s>",
       {"69fa5266447ad711ab8e930f2b4f0ce98e77e4f4b775b8578442ebfe4df1ee13"}},
      {"mistral-v0.2",
       MistralStyle{"[INST] ", " [/INST]", "", ""},
       {},
       inst,
       "<s>",
       "</s>",
       {"d2b69567bd62e7debbf059d5ae3b0ff624047cfb6c63985b568576d915ad9e50"}},
      {"mistral-v1",
       MistralStyle{" [INST] ", " [/INST]", " ", "", false, System::in_first},
       {},
       inst,
       "<s>",
       "</s>",
       {"64ec9e3d69228990b0c19522c86be67f8e4fc57a3554e46f4d7d3600d223a14e"}},
      {"mistral-v3",
       MistralStyle{"[INST] ", "[/INST]", " ", "", true, System::in_last},
       inst,
       {},
       "<s>",
       "</s>",
       {"f0ba0be2f352fcd913b00715009f03ebfb9e91168c65f6554035745ed1865308"}},
      {"mistral-v3-tekken",
       MistralStyle{"[INST]", "[/INST]", "", "", false, System::in_last},
       inst,
       {},
       "<s>",
       "</s>",
       {"72495f784453d4d1891ae507a92fc48ac388164a320bd5de3251523344cb42be"}},
      {"gemma",
       GemmaStyle{},
       gemma,
       {},
       "<bos>",
       "",
       {"1adb927c4fd2de1780d97f7b847b3ccee932cfceed786ac35fd3786f11a9f03a",
        "0f3056a4748e3d4f1f959a02b176815325f89e48ce0d97d86930b4406aef3dd8"}},
      {"gemma3",
       GemmaStyle{.system = true},
       gemma,
       {},
       "<bos>",
       "",
       {"e2e50dcf2ef8038fdf2a7924a89fbac171d5de7bbd96e11e049b0e9000f0daaf"}},
  };
  return kStyles;
}

std::string digest_of_template(std::string_view jinja) {
  std::string words(jinja);
  for (auto at = words.find("\r\n"); at != std::string::npos; at = words.find("\r\n", at)) words.erase(at, 1);
  if (words.ends_with('\n')) words.pop_back();
  return hash::to_hex(hash::digest_of(words));
}

const ChatStyle* recognise_template(std::string_view jinja) {
  const auto digest = digest_of_template(jinja);
  for (const auto& style : chat_styles())
    if (std::ranges::find(style.published, digest) != style.published.end() ||
        digest_of_template(jinja_of(style)) == digest)
      return &style;
  return nullptr;
}

std::string jinja_of(const ChatStyle& style) {
  return std::visit([](const auto& turns) { return turns_jinja(turns); }, style.turns);
}

void write_chat(const ChatStyle& style, const Conversation& conversation, ChatWriter& out) {
  std::visit([&](const auto& turns) { write_turns(turns, conversation, out); }, style.turns);
}

namespace {

// White space of more than one byte, in UTF-8: U+0085, U+00A0, U+1680, U+2000 to U+200A, U+2028, U+2029, U+202F,
// U+205F, U+3000.
constexpr std::string_view kWide[] = {"\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\x80", "\xE2\x80\x81",
                                      "\xE2\x80\x82", "\xE2\x80\x83", "\xE2\x80\x84", "\xE2\x80\x85", "\xE2\x80\x86",
                                      "\xE2\x80\x87", "\xE2\x80\x88", "\xE2\x80\x89", "\xE2\x80\x8A", "\xE2\x80\xA8",
                                      "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80"};

bool is_narrow(char c) { return c == ' ' || (c >= '\t' && c <= '\r') || (c >= '\x1c' && c <= '\x1f'); }

size_t space_before(std::string_view words) {
  if (words.empty()) return 0;
  if (is_narrow(words.front())) return 1;
  for (const auto wide : kWide)
    if (words.starts_with(wide)) return wide.size();
  return 0;
}

size_t space_after(std::string_view words) {
  if (words.empty()) return 0;
  if (is_narrow(words.back())) return 1;
  for (const auto wide : kWide)
    if (words.ends_with(wide)) return wide.size();
  return 0;
}

}  // namespace

void ChatWriter::add(std::string_view words, bool counted) {
  if (words.empty()) return;
  if (parts_.empty() || parts_.back().counted != counted) parts_.push_back({.text = {}, .counted = counted});
  parts_.back().text += words;
}

std::string_view strip(std::string_view words) {
  for (auto n = space_before(words); n > 0; n = space_before(words)) words.remove_prefix(n);
  for (auto n = space_after(words); n > 0; n = space_after(words)) words.remove_suffix(n);
  return words;
}

std::string_view strip_newlines_left(std::string_view words) {
  while (words.starts_with('\n')) words.remove_prefix(1);
  return words;
}

std::string_view strip_newlines_right(std::string_view words) {
  while (words.ends_with('\n')) words.remove_suffix(1);
  return words;
}

void require_alternating(std::span<const Message> messages, size_t first) {
  for (size_t i = 0; i < messages.size(); ++i)
    if (is_user(messages[i]) != (i % 2 == 0))
      throw io::FormatError(text("message ", first + i + 1, " of the conversation has the role \"", messages[i].role,
                                 "\"; the model's chat template lets user and assistant take turns, the user first"));
}

}  // namespace shade::data
