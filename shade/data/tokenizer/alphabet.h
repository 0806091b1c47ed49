// The symbols that a word begins as, before any of them are joined: its bytes, or its characters and the bytes of those
// that have no token.
#pragma once

#include <array>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "shade/data/tokenizer/tokenizer.h"

namespace shade::data {

class Alphabet {
 public:
  static constexpr TokenId kNone = -1;

  struct Unknown {       // what a byte without a token becomes
    TokenId id = kNone;  // kNone: it is left out
    bool fuse = false;   // a run of them is one token
  };
  using Bytes = std::array<TokenId, 256>;  // kNone: the byte has no token

  Alphabet(const Bytes& bytes, Unknown unknown);
  // With these characters as symbols of their own, each as UTF-8. Every byte must have a token.
  Alphabet(const Bytes& bytes, const std::vector<std::pair<std::string_view, TokenId>>& characters);

  void append(std::string_view word, std::vector<TokenId>& ids) const;

 private:
  void append_characters(std::string_view word, std::vector<TokenId>& ids) const;
  void append_known(std::string_view word, std::vector<TokenId>& ids) const;

  Bytes bytes_;
  Unknown unknown_;
  bool complete_;                                     // every byte has a token
  std::unordered_map<uint32_t, TokenId> characters_;  // by their bytes; empty: every byte is a symbol
};

}  // namespace shade::data
