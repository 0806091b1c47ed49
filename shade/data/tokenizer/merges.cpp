#include "shade/data/tokenizer/merges.h"

#include <array>
#include <bit>
#include <queue>

#include "shade/base/error.h"

namespace shade::data {
namespace {

uint64_t pair_key(TokenId left, TokenId right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

PairTable::PairTable(size_t pairs) {
  const auto size = std::bit_ceil(2 * pairs + 2);
  slots_.resize(size);
  shift_ = 64 - std::countr_zero(size);
}

size_t PairTable::place(uint64_t key) const {
  auto at = static_cast<size_t>((key * 0x9E3779B97F4A7C15ULL) >> shift_);
  while (slots_[at].key != key && slots_[at].key != UINT64_MAX) at = (at + 1) & (slots_.size() - 1);
  return at;
}

bool PairTable::add(TokenId left, TokenId right, Join join) {
  auto& slot = slots_[place(pair_key(left, right))];
  if (slot.key != UINT64_MAX) return false;
  slot = {pair_key(left, right), join};
  return true;
}

PairTable::Join PairTable::find(TokenId left, TokenId right) const { return slots_[place(pair_key(left, right))].join; }

void Merges::join(std::vector<TokenId>& ids, size_t from) const {
  if (ids.size() - from <= kShort)
    join_short(ids, from);
  else
    join_long(ids, from);
}

void Merges::join_short(std::vector<TokenId>& ids, size_t from) const {
  size_t n = ids.size() - from;
  SHADE_CHECK(n <= kShort, "a word of ", n, " symbols");
  auto* symbol = ids.data() + from;
  std::array<PairTable::Join, kShort> join;  // of symbol i and i + 1; NOLINT: filled below
  for (size_t i = 0; i + 1 < n; ++i) join[i] = pairs_.find(symbol[i], symbol[i + 1]);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i)
      if (join[i].rank < join[best].rank) best = i;
    if (join[best].rank == PairTable::kNone) break;
    symbol[best] = join[best].id;
    --n;
    for (size_t i = best + 1; i < n; ++i) {
      symbol[i] = symbol[i + 1];
      join[i - 1] = join[i];
    }
    if (best + 1 < n) join[best] = pairs_.find(symbol[best], symbol[best + 1]);
    if (best > 0) join[best - 1] = pairs_.find(symbol[best - 1], symbol[best]);
  }
  ids.resize(from + n);
}

void Merges::join_long(std::vector<TokenId>& ids, size_t from) const {
  constexpr uint32_t kEnd = UINT32_MAX;
  struct Symbol {
    TokenId id;
    uint32_t before, after;
  };
  struct Candidate {
    uint32_t rank, at;
    TokenId left, right, joined;
    bool operator<(const Candidate& other) const {  // the queue's top is the largest: lowest rank, then leftmost
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  const auto n = static_cast<uint32_t>(ids.size() - from);
  std::vector<Symbol> symbols(n);
  for (uint32_t i = 0; i < n; ++i) symbols[i] = {ids[from + i], i == 0 ? kEnd : i - 1, i + 1 == n ? kEnd : i + 1};
  std::priority_queue<Candidate> queue;
  const auto consider = [&](uint32_t at) {
    if (at == kEnd || symbols[at].after == kEnd) return;
    const auto left = symbols[at].id, right = symbols[symbols[at].after].id;
    const auto join = pairs_.find(left, right);
    if (join.rank != PairTable::kNone) queue.push({join.rank, at, left, right, join.id});
  };
  for (uint32_t i = 0; i < n; ++i) consider(i);
  while (!queue.empty()) {
    const auto top = queue.top();
    queue.pop();
    auto& left = symbols[top.at];
    if (left.id != top.left || left.after == kEnd || symbols[left.after].id != top.right) continue;  // changed since
    auto& right = symbols[left.after];
    left.id = top.joined;
    left.after = right.after;
    right.id = -1;
    if (left.after != kEnd) symbols[left.after].before = top.at;
    consider(left.before);
    consider(top.at);
  }
  ids.resize(from);
  for (uint32_t i = 0; i != kEnd && i < n; i = symbols[i].after) ids.push_back(symbols[i].id);
}

}  // namespace shade::data
