#include "shade/data/tokenizer/vocabulary.h"

#include <algorithm>

#include "shade/base/error.h"
#include "shade/data/tokenizer/byte_level.h"
#include "shade/data/tokenizer/characters.h"
#include "shade/data/tokenizer/normalizer.h"
#include "shade/io/untrusted_text.h"

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

}  // namespace shade::data
