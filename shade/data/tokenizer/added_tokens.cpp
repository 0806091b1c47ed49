#include "shade/data/tokenizer/added_tokens.h"

#include <algorithm>

#include "shade/data/tokenizer/characters.h"

namespace shade::data {

void AddedTokens::add(AddedToken token) {
  auto& entries = by_first_byte_[static_cast<unsigned char>(token.content.at(0))];
  const auto place = std::find_if(entries.begin(), entries.end(),
                                  [&](const AddedToken& entry) { return entry.content.size() < token.content.size(); });
  entries.insert(place, std::move(token));
  empty_ = false;
}

std::optional<AddedTokens::Found> AddedTokens::find(std::string_view text, size_t& at, size_t done) const {
  const auto here = [&]() -> const AddedToken* {
    for (const auto& token : by_first_byte_[static_cast<unsigned char>(text[at])])
      if (text.substr(at).starts_with(token.content)) return &token;
    return nullptr;
  };
  while (!empty_ && at < text.size()) {
    const auto* token = here();
    auto begin = at, end = at + (token == nullptr ? 1 : token->content.size());
    at = end;
    if (token == nullptr) continue;
    if (token->single_word && (ends_with_word(text.substr(0, begin)) || begins_with_word(text.substr(end)))) continue;
    if (token->lstrip) begin = std::max(done, begin - spaces_at_end(text.substr(0, begin)));
    if (token->rstrip) end += spaces_at_start(text.substr(end));
    return Found{begin, end, token->id};
  }
  return std::nullopt;
}

}  // namespace shade::data
