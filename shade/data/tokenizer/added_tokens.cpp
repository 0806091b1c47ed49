#include "shade/data/tokenizer/added_tokens.h"

#include <algorithm>

namespace shade::data {

void AddedTokens::add(std::string content, TokenId id) {
  auto& entries = by_first_byte_[static_cast<unsigned char>(content.at(0))];
  const auto place = std::find_if(entries.begin(), entries.end(),
                                  [&](const Entry& entry) { return entry.content.size() < content.size(); });
  entries.insert(place, {std::move(content), id});
  ++count_;
}

std::optional<AddedTokens::Found> AddedTokens::find(std::string_view text, size_t from) const {
  if (empty()) return std::nullopt;
  for (size_t at = from; at < text.size(); ++at)
    for (const auto& [content, id] : by_first_byte_[static_cast<unsigned char>(text[at])])
      if (text.substr(at).starts_with(content)) return Found{at, at + content.size(), id};
  return std::nullopt;
}

}  // namespace shade::data
