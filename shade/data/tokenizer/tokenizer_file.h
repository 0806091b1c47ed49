// tokenizer.json of Hugging Face, as far as BPE goes: GPT-2, Llama 2 and 3, Mistral, Qwen, SmolLM and their kind.
//
// What it may say is read, and what it says beyond that is refused, not skipped: half a tokenizer gives other ids.
//   normalizer, pre_tokenizer, decoder   see pipeline.h
//   model           BPE of bytes, or of characters with byte_fallback: vocab, merges (pairs, or words with a space
//                   between), ignore_merges, unk_token, fuse_unk
//   added_tokens    found in the text before anything else, longest first; special ones are left out when decoding
//   post_processor  none, ByteLevel, or a template that sets tokens before and after a text
// Files are untrusted; a fault is an io::FormatError. Knows no libtorch, so that it can be fuzzed alone.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shade/data/tokenizer/added_tokens.h"
#include "shade/data/tokenizer/pipeline.h"

namespace shade::data {

struct TokenizerSpec {
  Pipeline pipeline;
  std::vector<std::pair<std::string, TokenId>> vocab;  // byte-level: in the spelling of byte_level.h
  std::vector<std::pair<std::string, std::string>> merges;
  bool ignore_merges = false;  // a word that is a token as a whole is that token
  std::optional<std::string> unknown;
  bool fuse_unknown = false;
  std::vector<AddedToken> added;
  std::optional<TokenId> before, after;  // set around a text by the template
};

TokenizerSpec parse_tokenizer(std::string_view json);

}  // namespace shade::data
