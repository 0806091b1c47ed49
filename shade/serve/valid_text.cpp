#include "shade/serve/valid_text.h"

#include "shade/base/visible_text.h"

namespace shade::serve {
namespace {

constexpr size_t kLongestCharacter = 4;  // bytes

// Whether more bytes could make these a character. Of the second byte's ranges each has its first or last value in it.
bool is_beginning(std::string_view bytes) {
  for (const char fill : {'\x80', '\xBF'})
    if (utf8_length(std::string(bytes) + std::string(kLongestCharacter, fill), 0) > bytes.size()) return true;
  return false;
}

// Bytes of the sequence at `at`, which is no character, that one U+FFFD stands for: the longest beginning of a
// character, or a single byte.
size_t broken_length(std::string_view words, size_t at) {
  for (auto length = std::min(kLongestCharacter - 1, words.size() - at); length > 1; --length)
    if (is_beginning(words.substr(at, length))) return length;
  return 1;
}

}  // namespace

size_t settled_length(std::string_view words) {
  const auto last = std::min(kLongestCharacter - 1, words.size());
  for (auto length = last; length > 0; --length)
    if (is_beginning(words.substr(words.size() - length))) return words.size() - length;
  return words.size();
}

std::string valid_text(std::string_view words) {
  std::string out;
  for (size_t at = 0; at < words.size();) {
    const auto length = utf8_length(words, at);
    out += length > 0 ? words.substr(at, length) : "\xEF\xBF\xBD";
    at += length > 0 ? length : broken_length(words, at);
  }
  return out;
}

}  // namespace shade::serve
