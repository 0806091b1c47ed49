#include "shade/data/tokenizer/vocabulary.h"

#include <algorithm>
#include <array>
#include <bit>
#include <queue>

#include "shade/base/error.h"
#include "shade/data/tokenizer/byte_level.h"
#include "shade/data/tokenizer/characters.h"
#include "shade/data/tokenizer/normalizer.h"
#include "shade/io/strict_json.h"

namespace shade::data {
namespace {

std::optional<TokenId> find(const TokenNames& names, std::string_view name) {
  const auto found = names.find(name);
  return found == names.end() ? std::nullopt : std::optional(found->second);
}

constexpr std::string_view kHex = "0123456789ABCDEF";

// <0x0A>: the byte 10 in vocabularies of characters.
std::string fallback_token(unsigned byte) { return text("<0x", kHex[byte / 16], kHex[byte % 16], ">"); }

std::optional<char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const auto high = kHex.find(token[3]), low = kHex.find(token[4]);
  if (high == kHex.npos || low == kHex.npos) return std::nullopt;
  return static_cast<char>(high * 16 + low);
}

Alphabet bytes_alone(const TokenizerSpec& spec, const TokenNames& names) {
  Alphabet::Bytes bytes{};
  for (unsigned b = 0; b < 256; ++b)
    bytes[b] = find(names, token_of_byte(static_cast<unsigned char>(b))).value_or(Alphabet::kNone);
  const auto missing = std::count(bytes.begin(), bytes.end(), Alphabet::kNone);
  if (missing == 256) refuse("no byte has a token; is this a byte-level tokenizer?");
  Alphabet::Unknown unknown{.fuse = spec.fuse_unknown};
  if (spec.unknown && missing > 0) {
    const auto id = find(names, *spec.unknown);
    if (!id) refuse(text("the unk_token ", io::quote(*spec.unknown), " is not in the vocabulary"));
    unknown.id = *id;
  }
  return {bytes, unknown};
}

Alphabet with_characters(const TokenizerSpec& spec, const TokenNames& names) {
  Alphabet::Bytes bytes{};
  for (unsigned b = 0; b < 256; ++b) {
    const auto id = find(names, fallback_token(b));
    if (!id) refuse(text("byte_fallback needs the token ", io::quote(fallback_token(b)), ", which is none"));
    bytes[b] = *id;
  }
  std::vector<std::pair<std::string_view, TokenId>> characters;
  for (const auto& [token, id] : spec.vocab)
    if (!token.empty() && token.size() == character_size(static_cast<unsigned char>(token[0])))
      characters.emplace_back(token, id);
  if (characters.empty()) refuse("no character has a token");
  return {bytes, characters};
}

}  // namespace

TokenNames names_of(const TokenizerSpec& spec) {
  TokenNames names;
  names.reserve(spec.vocab.size());
  for (const auto& [token, id] : spec.vocab) names.emplace(token, id);
  return names;
}

Alphabet alphabet_of(const TokenizerSpec& spec, const TokenNames& names) {
  return spec.pipeline.byte_level ? bytes_alone(spec, names) : with_characters(spec, names);
}

PairTable pairs_of(const TokenizerSpec& spec, const TokenNames& names) {
  const auto token = [&](const std::string& name) {
    const auto id = find(names, name);
    if (!id) refuse(text("a merge needs the token ", io::quote(name), ", which is none"));
    return *id;
  };
  PairTable pairs(spec.merges.size());
  uint32_t rank = 0;
  for (const auto& [left, right] : spec.merges)
    if (!pairs.add(token(left), token(right), {rank++, token(left + right)}))
      refuse(text("the merge of ", io::quote(left), " and ", io::quote(right), " is there twice"));
  return pairs;
}

std::string bytes_of(std::string_view token, const Pipeline& pipeline) {
  if (pipeline.byte_level) return bytes_of_token(token).value_or(std::string(token));
  if (const auto byte = fallback_byte(token)) return {*byte};
  return pipeline.replaced ? replaced(token, pipeline.replaced->first, pipeline.replaced->second) : std::string(token);
}

namespace {

uint32_t key_of(std::string_view character) {
  uint32_t key = 0;
  for (const char c : character) key = key << 8 | static_cast<unsigned char>(c);
  return key;
}

}  // namespace

Alphabet::Alphabet(const Bytes& bytes, Unknown unknown)
    : bytes_(bytes), unknown_(unknown), complete_(std::find(bytes.begin(), bytes.end(), kNone) == bytes.end()) {}

Alphabet::Alphabet(const Bytes& bytes, const std::vector<std::pair<std::string_view, TokenId>>& characters)
    : Alphabet(bytes, Unknown{}) {
  SHADE_CHECK(complete_, "a character without a token falls back to its bytes, of which one has none");
  for (const auto& [character, id] : characters) characters_.emplace(key_of(character), id);
}

void Alphabet::append(std::string_view word, std::vector<TokenId>& ids) const {
  if (!characters_.empty()) return append_characters(word, ids);
  if (!complete_) return append_known(word, ids);
  const auto from = ids.size();
  ids.resize(from + word.size());
  std::transform(word.begin(), word.end(), ids.begin() + static_cast<std::ptrdiff_t>(from),
                 [&](char c) { return bytes_[static_cast<unsigned char>(c)]; });
}

void Alphabet::append_known(std::string_view word, std::vector<TokenId>& ids) const {
  bool unknown = false;  // the symbol before is
  for (const char c : word) {
    const auto id = bytes_[static_cast<unsigned char>(c)];
    if (id != kNone)
      ids.push_back(id);
    else if (unknown_.id != kNone && !(unknown && unknown_.fuse))
      ids.push_back(unknown_.id);
    unknown = id == kNone;
  }
}

void Alphabet::append_characters(std::string_view word, std::vector<TokenId>& ids) const {
  while (!word.empty()) {
    const auto character = word.substr(0, character_size(static_cast<unsigned char>(word[0])));
    const auto found = characters_.find(key_of(character));
    if (found != characters_.end())
      ids.push_back(found->second);
    else
      for (const char c : character) ids.push_back(bytes_[static_cast<unsigned char>(c)]);
    word.remove_prefix(character.size());
  }
}

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
