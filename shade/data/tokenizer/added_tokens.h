// Tokens that are found in a text as they are written, before it is cut into words.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shade/data/tokenizer/tokenizer.h"

namespace shade::data {

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;
  bool normalized = false;              // looked for in the normalized text, not in the text as it came
  bool single_word = false;             // not where it touches a letter or digit
  bool lstrip = false, rstrip = false;  // takes the white space before and after it as well
};

class AddedTokens {
 public:
  void add(AddedToken token);

  // All of `text` in order: found(id) for added tokens, the leftmost first and of those that begin there the longest,
  // and plain(part) for what lies between them.
  template <class Plain, class OnToken>
  void cut(std::string_view text, const Plain& plain, const OnToken& found) const {
    size_t done = 0;
    for (size_t at = 0; const auto next = find(text, at, done); done = next->end) {
      if (next->begin > done) plain(text.substr(done, next->begin - done));
      found(next->id);
    }
    if (done < text.size()) plain(text.substr(done));
  }

 private:
  struct Found {
    size_t begin = 0, end = 0;
    TokenId id = 0;
  };
  // The next from `at` on, which moves behind it; its white space doesn't reach before `done`.
  std::optional<Found> find(std::string_view text, size_t& at, size_t done) const;

  std::array<std::vector<AddedToken>, 256> by_first_byte_;  // longest first
  bool empty_ = true;
};

}  // namespace shade::data
