// Strings with the ids that the `tokenizers` package gives them, as tools/golden/make_tokenizers.py writes them.
#pragma once

#include <map>

#include "folder.h"
#include "shade/data/tokenizer/tokenizer.h"

namespace shade::data {

struct TokenizerCase {
  std::string text;
  std::vector<TokenId> ids;
  std::string decoded;
};

inline std::vector<TokenizerCase> read_cases(const std::filesystem::path& path) {
  const auto bytes = io::content(path);
  size_t at = 0;
  const auto number = [&] {
    size_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(at++));
      value |= static_cast<size_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  const auto words = [&] {
    const auto size = number();
    at += size;
    return bytes.substr(at - size, size);
  };
  std::vector<TokenizerCase> out;
  while (at < bytes.size()) {
    TokenizerCase one{.text = words(), .ids = {}, .decoded = {}};
    one.ids.resize(number());
    for (auto& id : one.ids) id = static_cast<TokenId>(number());
    one.decoded = words();
    if (one.decoded.empty()) one.decoded = one.text;
    out.push_back(std::move(one));
  }
  return out;
}

// How many cases differ; the first few are shown.
inline int differences(const Tokenizer& tokenizer, const std::vector<TokenizerCase>& cases) {
  int wrong = 0;
  std::vector<TokenId> ids;
  for (const auto& one : cases) {
    ids.clear();
    tokenizer.encode(one.text, ids);
    const bool same = ids == one.ids && tokenizer.decode(one.ids, true) == one.decoded;
    if (!same && ++wrong <= 5)
      ADD_FAILURE() << "differs: " << testing::PrintToString(one.text) << "\n  ids " << testing::PrintToString(ids)
                    << "\n  expected " << testing::PrintToString(one.ids);
  }
  return wrong;
}

}  // namespace shade::data
