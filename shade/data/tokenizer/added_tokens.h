// Tokens that are found in a text as they are written, before it is cut into words.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shade/data/tokenizer/tokenizer.h"

namespace shade::data {

class AddedTokens {
 public:
  void add(std::string content, TokenId id);
  bool empty() const { return count_ == 0; }

  struct Found {
    size_t begin = 0, end = 0;
    TokenId id = 0;
  };
  // The leftmost from `from` on, and of those that begin there the longest.
  std::optional<Found> find(std::string_view text, size_t from) const;

 private:
  struct Entry {
    std::string content;
    TokenId id;
  };
  std::array<std::vector<Entry>, 256> by_first_byte_;  // longest first
  size_t count_ = 0;
};

}  // namespace shade::data
