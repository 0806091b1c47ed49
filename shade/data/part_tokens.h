// The tokens of a record's parts, and which of them count in the loss.
//
// The tokens of what is not counted, a prompt, are those that it has alone: they are what the model is given when it
// generates. Where the tokenizer joins the end of a prompt with the begin of what follows ("is " and "it" to " it"),
// the text is therefore tokenized in two; elsewhere as a whole, which gives transformers' ids. No token is half
// counted.
//
//   cost: each text once, prompts twice
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "shade/data/tokenizer/tokenizer.h"

namespace shade::data {

struct PartText {
  std::string_view text;
  bool counted = true;
};

// Appends ids, and for each whether it is counted. A part that is not counted may follow a counted one only if that
// ends with a special token, as turns of a conversation do: the tokens on both sides of one don't depend on each other.
void encode_parts(const Tokenizer& tokenizer, std::span<const PartText> parts, std::vector<TokenId>& ids,
                  std::vector<uint8_t>& counted);

}  // namespace shade::data
