// What the chat templates have in common: a conversation to write, and parts to write it to.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shade/data/record.h"

namespace shade::data {

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

}  // namespace shade::data
