// Strings with the ids that the `tokenizers` package gives them, as tools/golden/make_tokenizers.py writes them.
#pragma once

#include <map>

#include "folder.h"
#include "shade/data/tokenizer/tokenizer.h"
#include "shade/io/strict_json.h"

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
  const auto words = [&](size_t size) {
    at += size;
    return bytes.substr(at - size, size);
  };
  std::vector<TokenizerCase> out;
  while (at < bytes.size()) {
    TokenizerCase one{.text = words(number()), .ids = {}, .decoded = {}};
    one.ids.resize(number());
    for (auto& id : one.ids) id = static_cast<TokenId>(number());
    const auto size = number();
    one.decoded = size == 0 ? one.text : words(size - 1);
    out.push_back(std::move(one));
  }
  return out;
}

// UTF-8 as Python shows bytes: what is none is U+FFFD, one for each longest beginning of a character.
inline std::string lossy(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const auto good = io::first_not_utf8(bytes).value_or(bytes.size());
    out += bytes.substr(0, good);
    bytes.remove_prefix(good);
    if (bytes.empty()) break;
    // The longest piece that some continuation would complete.
    size_t broken = 1;
    for (size_t size = 2; size <= std::min<size_t>(bytes.size(), 3); ++size)
      for (const char* rest : {"\x80", "\x90", "\xA0", "\xBF", "\x80\x80", "\x90\x80", "\xA0\x80", "\xBF\x80"})
        if (!io::first_not_utf8(std::string(bytes.substr(0, size)) + rest)) broken = size;
    out += "\uFFFD";
    bytes.remove_prefix(broken);
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
    const bool same = ids == one.ids && lossy(tokenizer.decode(one.ids, true)) == one.decoded;
    if (!same && ++wrong <= 5)
      ADD_FAILURE() << "differs: " << testing::PrintToString(one.text) << "\n  ids " << testing::PrintToString(ids)
                    << "\n  expected " << testing::PrintToString(one.ids);
  }
  return wrong;
}

}  // namespace shade::data
