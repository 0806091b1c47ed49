// A record of text as a file gives it, before it is tokenized.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shade::data {

// A stretch of a record's text. The special tokens that a chat template sets are in its text.
struct Part {
  std::string text;
  bool counted = true;  // its tokens are in the loss

  bool operator==(const Part&) const = default;
};

// A turn of a conversation.
struct Message {
  std::string role, content;

  bool operator==(const Message&) const = default;
};

struct Record {
  std::vector<Part> parts;           // a plain text has one; prompt and completion two, of which the second is counted
  std::optional<std::string> label;  // a number as its digits
  std::optional<std::string> user;   // whose record it is; a number as its digits
  bool framed = true;                // bos and eos are set around it; a conversation brings its own
  int64_t line = 1;                  // of the file, where the record begins; of a table, its row

  size_t bytes() const {
    size_t sum = 0;
    for (const auto& part : parts) sum += part.text.size();
    return sum;
  }

  std::string text() const {  // all parts
    std::string out;
    for (const auto& part : parts) out += part.text;
    return out;
  }
};

}  // namespace shade::data
