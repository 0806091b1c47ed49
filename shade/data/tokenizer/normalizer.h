// What is done to a text before it is cut into words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shade/data/tokenizer/pipeline.h"

namespace shade::data {

class Normalizer {
 public:
  explicit Normalizer(std::vector<NormalizerStep> steps) : steps_(std::move(steps)) {}

  // `words` (UTF-8) if nothing changes, else `storage`, which is filled.
  std::string_view operator()(std::string_view words, std::string& storage) const;

 private:
  std::vector<NormalizerStep> steps_;
};

// Every `from` in `words` by `to`.
std::string replaced(std::string_view words, std::string_view from, std::string_view to);

// Unicode's normal form C as tokenizers have it.
//
// By utf8proc: one small library with its tables inside, where ICU brings 30 MB of data. The `tokenizers` package
// normalizes by Unicode 9, and ids must be the same: marks that came later stand for themselves, as they do there.

// `words` (UTF-8) if a first look says that they are in that form already, else `storage`, which is filled.
std::string_view nfc(std::string_view words, std::string& storage);

}  // namespace shade::data
