// tokenizer.json of Hugging Face, as far as byte-level BPE goes: Llama 3, Qwen2 and their kind.
//
// What it may say is read, and what it says beyond that is refused, not skipped: half a tokenizer gives other ids.
//   normalizer      none, or NFC
//   pre_tokenizer   Split by a regular expression (isolated), any number of them, then ByteLevel
//   model           BPE on bytes: vocab, merges (pairs, or words with a space between), ignore_merges
//   added_tokens    found in the text before anything else, longest first; special ones are left out when decoding
//   post_processor  none, ByteLevel, or a template that sets tokens before and after a text
// Files are untrusted; a fault is an io::FormatError. Knows no libtorch, so that it can be fuzzed alone.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shade/data/tokenizer/tokenizer.h"

namespace shade::data {

inline constexpr TokenId kMaxTokenId = (1 << 24) - 1;

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;
  bool normalized = false;  // looked for in the normalized text, not in the text as it came
};

struct TokenizerSpec {
  std::vector<std::pair<std::string, TokenId>> vocab;  // in the spelling of byte_level.h
  std::vector<std::pair<std::string, std::string>> merges;
  bool ignore_merges = false;  // a word that is a token as a whole is that token
  bool nfc = false;
  std::vector<std::string> patterns;
  std::vector<AddedToken> added;
  std::optional<TokenId> before, after;  // set around a text by the template
};

TokenizerSpec parse_tokenizer(std::string_view json);

}  // namespace shade::data
