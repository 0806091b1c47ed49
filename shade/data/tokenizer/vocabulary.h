// What BPE needs of a vocabulary: the symbols words begin as, and which pairs of symbols join.
#pragma once

#include <unordered_map>

#include "shade/data/tokenizer/alphabet.h"
#include "shade/data/tokenizer/merges.h"
#include "shade/data/tokenizer/tokenizer_file.h"

namespace shade::data {

using TokenNames = std::unordered_map<std::string_view, TokenId>;  // names are the spec's

TokenNames names_of(const TokenizerSpec& spec);

// Both throw io::FormatError.
Alphabet alphabet_of(const TokenizerSpec& spec, const TokenNames& names);
PairTable pairs_of(const TokenizerSpec& spec, const TokenNames& names);

// The bytes that a token of the vocabulary stands for.
std::string bytes_of(std::string_view token, const Pipeline& pipeline);

}  // namespace shade::data
