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

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shade/data/tokenizer/pipeline.h"
#include "shade/data/tokenizer/tokenizer.h"

namespace shade::data {

// Tokens that are found in a text as they are written, before it is cut into words.
struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;
  bool normalized = false;              // looked for in the normalized text, not in the text as it came
  bool single_word = false;             // not where it touches a letter or digit
  bool lstrip = false, rstrip = false;  // takes the white space before and after it as well
};

class AddedTokens {
 public:
  void add(AddedToken token);

  // All of `text` in order: found(id) for added tokens, the leftmost first and of those that begin there the longest,
  // and plain(part) for what lies between them.
  template <class Plain, class OnToken>
  void cut(std::string_view text, const Plain& plain, const OnToken& found) const {
    size_t at = 0, done = 0;
    while (const auto next = find(text, at, done)) {
      if (next->begin > done) plain(text.substr(done, next->begin - done));
      found(next->id);
      done = next->end;
    }
    if (done < text.size()) plain(text.substr(done));
  }

 private:
  struct Found {
    size_t begin = 0, end = 0;
    TokenId id = 0;
  };
  // The next from `at` on, which moves behind it; its white space doesn't reach before `done`.
  std::optional<Found> find(std::string_view text, size_t& at, size_t done) const;

  std::array<std::vector<AddedToken>, 256> by_first_byte_;  // longest first
  bool empty_ = true;
};

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
