#include "shade/data/tokenizer/bpe_tokenizer.h"

#include "shade/base/error.h"
#include "shade/data/tokenizer/byte_level.h"
#include "shade/hash/digest.h"
#include "shade/io/errors.h"
#include "shade/io/strict_json.h"

namespace shade::data {
namespace {

constexpr int kVersion = 1;  // of the way from text to ids: another one makes token caches anew

// Ends of a text in published tokenizers, where no tokenizer_config.json says which it is.
constexpr const char* kKnownEnds[] = {"<|end_of_text|>", "<|endoftext|>", "</s>", "<|im_end|>", "<|eot_id|>"};

}  // namespace

BpeTokenizer::BpeTokenizer(std::string_view json, const TextEnds& ends)
    : BpeTokenizer(parse_tokenizer(json), ends, text("bpe ", kVersion, " ", hash::to_hex(hash::digest_of(json)))) {}

BpeTokenizer::BpeTokenizer(const TokenizerSpec& spec, const TextEnds& ends, std::string fingerprint)
    : BpeTokenizer(spec, names_of(spec), ends, std::move(fingerprint)) {}

BpeTokenizer::BpeTokenizer(const TokenizerSpec& spec, const TokenNames& names, const TextEnds& ends,
                           std::string fingerprint)
    : fingerprint_(std::move(fingerprint)),
      pipeline_(spec.pipeline),
      normalizer_(spec.pipeline.normalizer),
      patterns_(spec.pipeline.patterns.begin(), spec.pipeline.patterns.end()),
      alphabet_(alphabet_of(spec, names)),
      merges_(pairs_of(spec, names)),
      ignore_merges_(spec.ignore_merges) {
  for (const auto& [token, id] : spec.vocab) {
    place(id, bytes_of(token, pipeline_), Kind::plain);
    if (!ignore_merges_) continue;
    const auto word = pipeline_.byte_level ? bytes_of_token(token) : std::optional(token);
    if (word) ids_.emplace(*word, id);
  }
  for (const auto& token : spec.added) add(token, names);
  set_ends(spec, names, ends);
}

void BpeTokenizer::place(TokenId id, std::string bytes, Kind kind) {
  const auto at = static_cast<size_t>(id);
  if (at >= tokens_.size()) tokens_.resize(at + 1);
  tokens_[at] = {std::move(bytes), kind};
}

void BpeTokenizer::add(AddedToken token, const TokenNames& names) {
  const auto known = names.find(token.content);
  const auto at = static_cast<size_t>(token.id);
  const bool taken = at < tokens_.size() && tokens_[at].kind != Kind::none;
  if (known == names.end() ? taken : known->second != token.id)
    refuse(text("the id ", token.id, " of the added token ", io::quote(token.content),
                known == names.end() ? " is another token's" : " is not the one of the vocabulary"));
  std::string storage;
  if (token.normalized) token.content = normalizer_(token.content, storage);
  // Byte-level decoding leaves what spells no bytes as it is; a name that does is meant as it is written as well.
  place(token.id, pipeline_.byte_level ? token.content : bytes_of(token.content, pipeline_),
        token.special ? Kind::special : Kind::plain);
  if (!token.content.empty()) (token.normalized ? normalized_ : as_written_).add(std::move(token));
}

void BpeTokenizer::set_ends(const TokenizerSpec& spec, const TokenNames& names, const TextEnds& ends) {
  const auto named = [&](std::string_view name) -> std::optional<TokenId> {
    for (const auto& token : spec.added)
      if (token.content == name) return token.id;
    const auto found = names.find(name);
    return found == names.end() ? std::nullopt : std::optional(found->second);
  };
  const auto required = [&](const std::string& name, const char* what) {
    const auto id = named(name);
    if (!id) refuse(text("the ", what, " token ", io::quote(name), " is not in the vocabulary"));
    return *id;
  };
  bos_ = spec.before;
  auto eos = spec.after;
  if (ends.eos) eos = required(*ends.eos, "eos");
  for (const auto* name : kKnownEnds)
    if (!eos) eos = named(name);
  if (!eos) refuse("it isn't known which token ends a text; say \"eos_token\" in a tokenizer_config.json");
  eos_ = *eos;
  pad_ = ends.pad ? required(*ends.pad, "pad") : eos_;
  for (const auto id : {bos_.value_or(eos_), eos_, pad_})
    if (static_cast<size_t>(id) >= tokens_.size() || tokens_[static_cast<size_t>(id)].kind == Kind::none)
      refuse(text("the template sets the id ", id, ", which is no token"));
}

void BpeTokenizer::encode(std::string_view words, std::vector<TokenId>& ids) const {
  as_written_.cut(
      words, [&](std::string_view part) { encode_part(part, part.data() == words.data(), ids); },
      [&](TokenId id) { ids.push_back(id); });
}

void BpeTokenizer::encode_part(std::string_view part, bool first, std::vector<TokenId>& ids) const {
  std::string storage;
  const auto normal = normalizer_(part, storage);
  normalized_.cut(
      normal, [&](std::string_view plain) { encode_plain(plain, first && plain.data() == normal.data(), ids); },
      [&](TokenId id) { ids.push_back(id); });
}

void BpeTokenizer::encode_plain(std::string_view plain, bool first, std::vector<TokenId>& ids) const {
  if (!pipeline_.metaspace) return encode_words(plain, 0, ids);
  using Prepend = Metaspace::Prepend;
  const auto& [prepend, space] = *pipeline_.metaspace;
  auto spaced = replaced(plain, " ", space);
  const bool wanted = prepend == Prepend::always || (prepend == Prepend::first && first);
  if (wanted && !spaced.starts_with(space)) spaced.insert(0, space);
  encode_words(spaced, 0, ids);
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
  const auto from = ids.size();
  alphabet_.append(words, ids);
  merges_.join(ids, from);
}

std::string BpeTokenizer::decode(std::span<const TokenId> ids, bool special) const {
  std::string out;
  for (const auto id : ids) {
    const bool known = id >= 0 && id < vocab() && tokens_[static_cast<size_t>(id)].kind != Kind::none;
    SHADE_REQUIRE(known, "token ", id, " is not in the vocabulary of ", vocab());
    const auto& token = tokens_[static_cast<size_t>(id)];
    if (token.kind == Kind::plain || special) out += token.bytes;
  }
  if (pipeline_.strips_space && out.starts_with(' ')) out.erase(0, 1);
  return out;
}

std::string BpeTokenizer::describe() const { return text("BPE of ", vocab()); }

}  // namespace shade::data
