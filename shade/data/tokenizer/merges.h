// Byte-pair encoding: a word's symbols, joined two by two in the order the training joined them.
//
//   cost: n symbols; words up to 64 by looking for the best pair each time, longer ones by a queue, n log n
#pragma once

#include <cstdint>
#include <vector>

#include "shade/data/tokenizer/tokenizer.h"

namespace shade::data {

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

}  // namespace shade::data
