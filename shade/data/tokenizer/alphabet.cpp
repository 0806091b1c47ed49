#include "shade/data/tokenizer/alphabet.h"

#include <algorithm>

#include "shade/base/error.h"
#include "shade/data/tokenizer/characters.h"

namespace shade::data {
namespace {

uint32_t key_of(std::string_view character) {
  uint32_t key = 0;
  for (const char c : character) key = key << 8 | static_cast<unsigned char>(c);
  return key;
}

}  // namespace

Alphabet::Alphabet(const Bytes& bytes, Unknown unknown)
    : bytes_(bytes), unknown_(unknown), complete_(std::find(bytes.begin(), bytes.end(), kNone) == bytes.end()) {}

Alphabet::Alphabet(const Bytes& bytes, const std::vector<std::pair<std::string_view, TokenId>>& characters)
    : Alphabet(bytes, Unknown{}) {
  SHADE_CHECK(complete_, "a character without a token falls back to its bytes, of which one has none");
  for (const auto& [character, id] : characters) characters_.emplace(key_of(character), id);
}

void Alphabet::append(std::string_view word, std::vector<TokenId>& ids) const {
  if (!characters_.empty()) return append_characters(word, ids);
  if (!complete_) return append_known(word, ids);
  const auto from = ids.size();
  ids.resize(from + word.size());
  std::transform(word.begin(), word.end(), ids.begin() + static_cast<std::ptrdiff_t>(from),
                 [&](char c) { return bytes_[static_cast<unsigned char>(c)]; });
}

void Alphabet::append_known(std::string_view word, std::vector<TokenId>& ids) const {
  bool unknown = false;  // the symbol before is
  for (const char c : word) {
    const auto id = bytes_[static_cast<unsigned char>(c)];
    if (id != kNone)
      ids.push_back(id);
    else if (unknown_.id != kNone && !(unknown && unknown_.fuse))
      ids.push_back(unknown_.id);
    unknown = id == kNone;
  }
}

void Alphabet::append_characters(std::string_view word, std::vector<TokenId>& ids) const {
  while (!word.empty()) {
    const auto character = word.substr(0, character_size(static_cast<unsigned char>(word[0])));
    const auto found = characters_.find(key_of(character));
    if (found != characters_.end())
      ids.push_back(found->second);
    else
      for (const char c : character) ids.push_back(bytes_[static_cast<unsigned char>(c)]);
    word.remove_prefix(character.size());
  }
}

}  // namespace shade::data
