#include "shade/data/part_tokens.h"

#include <algorithm>
#include <string>

namespace shade::data {
namespace {

// What follows a special token. With that token before it: a tokenizer may treat the begin of a text in its own way.
std::vector<TokenId> encode_after(const Tokenizer& tokenizer, std::span<const TokenId> before,
                                  const std::string& text) {
  std::vector<TokenId> ids;
  if (!before.empty()) {
    tokenizer.encode(tokenizer.decode(before.last(1), /*special=*/true) + text, ids);
    if (!ids.empty() && ids.front() == before.back()) {
      ids.erase(ids.begin());
      return ids;
    }
    ids.clear();
  }
  tokenizer.encode(text, ids);
  return ids;
}

// The tokens of prompt and answer in a row, and how many of them are the prompt's.
size_t encode_pair(const Tokenizer& tokenizer, const std::string& prompt, std::string_view answer,
                   std::vector<TokenId>& ids) {
  const auto alone = encode_after(tokenizer, ids, prompt);
  if (answer.empty()) {
    ids.insert(ids.end(), alone.begin(), alone.end());
    return alone.size();
  }
  auto both = encode_after(tokenizer, ids, prompt + std::string(answer));
  if (both.size() < alone.size() || !std::equal(alone.begin(), alone.end(), both.begin())) {
    both = alone;
    tokenizer.encode(answer, both);
  }
  ids.insert(ids.end(), both.begin(), both.end());
  return alone.size();
}

}  // namespace

void encode_parts(const Tokenizer& tokenizer, std::span<const PartText> parts, std::vector<TokenId>& ids,
                  std::vector<uint8_t>& counted) {
  if (parts.size() == 1 && parts[0].counted) {
    tokenizer.encode(parts[0].text, ids);
    counted.resize(ids.size(), 1);
    return;
  }
  std::vector<TokenId> record;
  for (size_t i = 0; i < parts.size();) {
    std::string prompt, answer;
    while (i < parts.size() && !parts[i].counted) prompt += parts[i++].text;
    while (i < parts.size() && parts[i].counted) answer += parts[i++].text;
    const auto begin = record.size();
    const auto given = encode_pair(tokenizer, prompt, answer, record);
    counted.resize(counted.size() + given, 0);
    counted.resize(counted.size() + record.size() - begin - given, 1);
  }
  ids.insert(ids.end(), record.begin(), record.end());
}

}  // namespace shade::data
