// What BPE needs of a vocabulary: the symbols words begin as, and which pairs of symbols join.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "shade/data/tokenizer/tokenizer.h"
#include "shade/data/tokenizer/tokenizer_file.h"

namespace shade::data {

// The symbols that a word begins as, before any of them are joined: its bytes, or its characters and the bytes of those
// that have no token.
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

// Byte-pair encoding: a word's symbols, joined two by two in the order the training joined them.
//
//   cost: n symbols; words up to 64 by looking for the best pair each time, longer ones by a queue, n log n

// Which pairs join, to what, and how early.
class PairTable {
 public:
  struct Join {
    uint32_t rank = kNone;
    TokenId id = 0;
  };
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit PairTable(size_t pairs);
  bool add(TokenId left, TokenId right, Join join);  // false if the pair is there already
  Join find(TokenId left, TokenId right) const;      // kNone: they don't join

 private:
  struct Slot {
    uint64_t key = UINT64_MAX;
    Join join;
  };
  size_t place(uint64_t key) const;

  std::vector<Slot> slots_;  // open addressing, at most half full
  int shift_ = 0;
};

class Merges {
 public:
  explicit Merges(PairTable pairs) : pairs_(std::move(pairs)) {}

  // Joins the symbols of one word, which are those of `ids` from `from` on.
  void join(std::vector<TokenId>& ids, size_t from) const;

  // The two ways, which agree; for tests.
  void join_short(std::vector<TokenId>& ids, size_t from) const;  // at most kShort symbols
  void join_long(std::vector<TokenId>& ids, size_t from) const;
  static constexpr size_t kShort = 64;

 private:
  PairTable pairs_;
};

using TokenNames = std::unordered_map<std::string_view, TokenId>;  // names are the spec's

TokenNames names_of(const TokenizerSpec& spec);

// Both throw io::FormatError.
Alphabet alphabet_of(const TokenizerSpec& spec, const TokenNames& names);
PairTable pairs_of(const TokenizerSpec& spec, const TokenNames& names);

// The bytes that a token of the vocabulary stands for.
std::string bytes_of(std::string_view token, const Pipeline& pipeline);

}  // namespace shade::data
