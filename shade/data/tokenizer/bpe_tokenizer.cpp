#include "shade/data/tokenizer/bpe_tokenizer.h"

#include <algorithm>

#include "shade/base/error.h"
#include "shade/data/tokenizer/byte_level.h"
#include "shade/data/tokenizer/nfc.h"
#include "shade/io/digest.h"
#include "shade/io/errors.h"
#include "shade/io/untrusted_text.h"

namespace shade::data {
namespace {

constexpr int kVersion = 1;  // of the way from text to ids: another one makes token caches anew

// Ends of a text in published tokenizers, where no tokenizer_config.json says which it is.
constexpr const char* kKnownEnds[] = {"<|end_of_text|>", "<|endoftext|>", "</s>", "<|im_end|>", "<|eot_id|>"};

// Calls `plain` for what lies between added tokens.
template <class Plain>
void cut(const AddedTokens& added, std::string_view words, std::vector<TokenId>& ids, const Plain& plain) {
  size_t done = 0;
  while (const auto found = added.find(words, done)) {
    if (found->begin > done) plain(words.substr(done, found->begin - done));
    ids.push_back(found->id);
    done = found->end;
  }
  if (done < words.size()) plain(words.substr(done));
}

}  // namespace

BpeTokenizer::BpeTokenizer(std::string_view json, const TextEnds& ends)
    : fingerprint_(text("bpe ", kVersion, " ", io::to_hex(io::digest_of(json)))),
      nfc_(false),
      ignore_merges_(false),
      merges_([&] {
        const auto spec = parse_tokenizer(json);
        nfc_ = spec.nfc;
        ignore_merges_ = spec.ignore_merges;
        for (const auto& pattern : spec.patterns) patterns_.emplace_back(pattern);
        auto merges = read_merges(spec);
        set_ends(spec, ends);
        return merges;
      }()) {}

void BpeTokenizer::place(TokenId id, std::string bytes, Kind kind) {
  const auto at = static_cast<size_t>(id);
  if (at >= tokens_.size()) tokens_.resize(at + 1);
  tokens_[at] = {std::move(bytes), kind};
}

Merges BpeTokenizer::read_merges(const TokenizerSpec& spec) {
  std::unordered_map<std::string_view, TokenId> by_name;
  for (const auto& [token, id] : spec.vocab) {
    by_name.emplace(token, id);
    auto bytes = bytes_of_token(token);
    if (bytes) ids_.emplace(*bytes, id);
    place(id, bytes.value_or(token), Kind::plain);
  }
  std::array<TokenId, 256> bytes{};
  for (int b = 0; b < 256; ++b) {
    const auto found = by_name.find(token_of_byte(static_cast<unsigned char>(b)));
    if (found == by_name.end())
      throw io::FormatError(text("byte ", b, " has no token; is this a byte-level tokenizer?"));
    bytes[static_cast<size_t>(b)] = found->second;
  }
  PairTable pairs(spec.merges.size());
  uint32_t rank = 0;
  for (const auto& [left, right] : spec.merges) {
    const auto a = by_name.find(left), b = by_name.find(right), joined = by_name.find(left + right);
    for (const auto& [part, found] : {std::pair{left, a}, std::pair{right, b}, std::pair{left + right, joined}})
      if (found == by_name.end())
        throw io::FormatError(text("a merge needs the token ", io::quote(part), ", which is none"));
    if (!pairs.add(a->second, b->second, {rank++, joined->second}))
      throw io::FormatError(text("the merge of ", io::quote(left), " and ", io::quote(right), " is there twice"));
  }
  for (const auto& token : spec.added) {
    const auto kind = token.special ? Kind::special : Kind::plain;
    const auto known = by_name.find(token.content);
    const auto at = static_cast<size_t>(token.id);
    const bool taken = at < tokens_.size() && tokens_[at].kind != Kind::none;
    if (known == by_name.end() ? taken : known->second != token.id)
      throw io::FormatError(text("the id ", token.id, " of the added token ", io::quote(token.content),
                                 known == by_name.end() ? " is another token's" : " is not the one of the vocabulary"));
    std::string storage;
    const std::string content(nfc_ && token.normalized ? nfc(token.content, storage) : token.content);
    place(token.id, content, kind);
    (token.normalized ? normalized_ : as_written_).add(content, token.id);
  }
  return {bytes, std::move(pairs)};
}

void BpeTokenizer::set_ends(const TokenizerSpec& spec, const TextEnds& ends) {
  const auto named = [&](std::string_view name) -> std::optional<TokenId> {
    for (const auto& token : spec.added)
      if (token.content == name) return token.id;
    for (const auto& [token, id] : spec.vocab)
      if (token == name) return id;
    return std::nullopt;
  };
  const auto required = [&](const std::string& name, const char* what) {
    const auto id = named(name);
    if (!id) throw io::FormatError(text("the ", what, " token ", io::quote(name), " is not in the vocabulary"));
    return *id;
  };
  bos_ = spec.before;
  auto eos = spec.after;
  if (ends.eos) eos = required(*ends.eos, "eos");
  for (const auto* name : kKnownEnds)
    if (!eos) eos = named(name);
  if (!eos)
    throw io::FormatError("it isn't known which token ends a text; say \"eos_token\" in a tokenizer_config.json");
  eos_ = *eos;
  pad_ = ends.pad ? required(*ends.pad, "pad") : eos_;
  for (const auto id : {bos_.value_or(0), eos_, pad_})
    if (static_cast<size_t>(id) >= tokens_.size() || tokens_[static_cast<size_t>(id)].kind == Kind::none)
      throw io::FormatError(text("the template sets the id ", id, ", which is no token"));
}

void BpeTokenizer::encode(std::string_view words, std::vector<TokenId>& ids) const {
  cut(as_written_, words, ids, [&](std::string_view part) { encode_raw(part, ids); });
}

void BpeTokenizer::encode_raw(std::string_view words, std::vector<TokenId>& ids) const {
  std::string storage;
  cut(normalized_, nfc_ ? nfc(words, storage) : words, ids, [&](std::string_view part) { encode_words(part, 0, ids); });
}

void BpeTokenizer::encode_words(std::string_view words, size_t pattern, std::vector<TokenId>& ids) const {
  if (pattern < patterns_.size()) {
    patterns_[pattern].split(words, [&](std::string_view piece) { encode_words(piece, pattern + 1, ids); });
    return;
  }
  if (ignore_merges_) {
    const auto whole = ids_.find(words);
    if (whole != ids_.end()) return ids.push_back(whole->second);
  }
  merges_.encode(words, ids);
}

std::string BpeTokenizer::decode(std::span<const TokenId> ids, bool special) const {
  std::string out;
  for (const auto id : ids) {
    const bool known = id >= 0 && id < vocab() && tokens_[static_cast<size_t>(id)].kind != Kind::none;
    SHADE_REQUIRE(known, "token ", id, " is not in the vocabulary of ", vocab());
    const auto& token = tokens_[static_cast<size_t>(id)];
    if (token.kind == Kind::plain || special) out += token.bytes;
  }
  return out;
}

std::string BpeTokenizer::describe() const { return text("BPE of ", vocab()); }

}  // namespace shade::data
