// The tokenizer of an exported model, as transformers reads it: tokenizer.json, tokenizer_config.json and, for a
// language model, what else lies beside them (chat template, names of special tokens).
//
// A language model's is the one it was trained with. A classifier's is changed so that tokenizer(texts, padding=True,
// truncation=True) and pipeline("text-classification") frame texts as training did:
//   - eos follows every text, because the class is read at it: a template in tokenizer.json sets it
//   - padding is another token than eos, because transformers reads the class at the last token that is not padding.
// Bytes become a byte-level BPE without merges: the same ids.
#pragma once

#include <filesystem>
#include <map>
#include <vector>

#include "shade/data/tokenizer/tokenizer.h"

namespace shade::data {

struct TokenizerUse {
  bool classifier = false;
  int64_t vocab = 0;       // tokens that the model has; above those of the tokenizer there is a spare one for padding
  int64_t seq_length = 0;  // where texts are cut
};

struct TokenizerExport {
  TokenId pad = 0;
  std::map<std::string, std::string> files;  // contents by name
  std::vector<std::filesystem::path> taken;  // files of the tokenizer's folder that these were made from
};

// `place` is what `tokenizer` was opened from. Throws UsageError if a classifier's tokenizer has no token for padding,
// io::FormatError for a file that is none of its folder (io/model_file.h) or not what its name says.
TokenizerExport export_tokenizer(const std::string& place, const Tokenizer& tokenizer, const TokenizerUse& use);

}  // namespace shade::data
