// The chat templates that are implemented: four ways to write turns, and rows of what differs within a way.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "shade/data/record.h"

namespace shade::data {

// What the chat templates have in common: a conversation to write, and parts to write it to.
struct Conversation {
  std::span<const Message> messages;  // at least one; roles are system, user and assistant
  bool generation_prompt = false;
  std::string_view bos, eos;
};

// Parts alternate: what is counted alike in a row is one part.
class ChatWriter {
 public:
  void prompt(std::string_view words) { add(words, false); }  // given to the model
  void answer(std::string_view words) { add(words, true); }   // what the model is to say
  std::vector<Part> take() { return std::move(parts_); }

 private:
  void add(std::string_view words, bool counted);

  std::vector<Part> parts_;
};

inline bool is_system(const Message& message) { return message.role == "system"; }
inline bool is_user(const Message& message) { return message.role == "user"; }
inline bool is_assistant(const Message& message) { return message.role == "assistant"; }

// Without white space at both ends, as Python's str.strip() has it: Unicode's, and the separators 0x1c to 0x1f.
std::string_view strip(std::string_view words);
std::string_view strip_newlines_left(std::string_view words);
std::string_view strip_newlines_right(std::string_view words);

// Throws io::FormatError unless users and assistants take turns and a user begins: message 0 of these is `first` of the
// conversation, which the fault is counted by.
void require_alternating(std::span<const Message> messages, size_t first);

// <|im_start|>role\ncontent<|im_end|>\n
struct ChatmlStyle {
  const char* default_system = nullptr;  // written first if the conversation has no system message
  bool thinking = false;                 // Qwen3: <think> blocks of earlier turns are left out, the last turn has one
};

// <|start_header_id|>role<|end_header_id|>\n\ncontent<|eot_id|>, contents trimmed
struct Llama3Style {
  bool dated = false;  // a system turn with dates comes first, and the system message in it
};

// [INST] question [/INST] answer</s>
struct MistralStyle {
  enum class System { refused, in_first, in_last };  // of the user's turns; in_last: only if it ends the conversation
  const char *open, *close, *before_answer, *after_answer;
  bool trim_answer = false;
  System system = System::refused;
};

// <start_of_turn>role\ncontent<end_of_turn>\n, contents trimmed, the assistant is "model"
struct GemmaStyle {
  bool system = false;  // the system message begins the first user turn; false: refused
};

struct ChatStyle {
  std::string_view name;
  std::variant<ChatmlStyle, Llama3Style, MistralStyle, GemmaStyle> turns;
  std::vector<std::string_view> tokens;      // that the tokenizer must have, for they delimit turns
  std::vector<std::string_view> delimiters;  // texts that delimit turns without being tokens
  std::string_view bos, eos;                 // if the tokenizer doesn't say; empty: the template has none
  std::vector<std::string_view> published;   // digests of the texts (digest_of_template) that model folders have
};

std::span<const ChatStyle> chat_styles();

// The style whose text this is, as published or as jinja_of() writes it; null if it is none.
const ChatStyle* recognise_template(std::string_view jinja);

// Of a template's text. A newline at the end and the kind of line ends mean nothing in Jinja and are not counted.
std::string digest_of_template(std::string_view jinja);

// A Jinja program of ours that writes what the style writes.
std::string jinja_of(const ChatStyle& style);

// Throws io::FormatError for conversations that the template refuses.
void write_chat(const ChatStyle& style, const Conversation& conversation, ChatWriter& out);

// One way each; `_jinja` is the program.
void write_turns(const ChatmlStyle& style, const Conversation& conversation, ChatWriter& out);
void write_turns(const Llama3Style& style, const Conversation& conversation, ChatWriter& out);
void write_turns(const MistralStyle& style, const Conversation& conversation, ChatWriter& out);
void write_turns(const GemmaStyle& style, const Conversation& conversation, ChatWriter& out);
std::string turns_jinja(const ChatmlStyle& style);
std::string turns_jinja(const Llama3Style& style);
std::string turns_jinja(const MistralStyle& style);
std::string turns_jinja(const GemmaStyle& style);

}  // namespace shade::data
