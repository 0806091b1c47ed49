#include "shade/base/visible_text.h"

#include <algorithm>

namespace shade {
namespace {

unsigned char byte_at(std::string_view words, size_t at) { return static_cast<unsigned char>(words[at]); }

// ASCII controls, and the two-byte ones (U+0080 to U+009F) that some terminals obey as well.
bool is_control(std::string_view words, size_t at) {
  const auto lead = byte_at(words, at);
  return lead < 0x20 || lead == 0x7F || (lead == 0xC2 && byte_at(words, at + 1) < 0xA0);
}

}  // namespace

size_t utf8_length(std::string_view words, size_t at) {
  const auto lead = byte_at(words, at);
  if (lead < 0x80) return 1;
  size_t length = 0;
  unsigned low = 0x80, high = 0xBF;  // of the second byte; narrower where a form would be overlong or a surrogate
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  }
  if (length == 0 || words.size() - at < length) return 0;
  if (byte_at(words, at + 1) < low || byte_at(words, at + 1) > high) return 0;
  for (size_t i = 2; i < length; ++i)
    if ((byte_at(words, at + i) & 0xC0) != 0x80) return 0;
  return length;
}

std::string visible(std::string_view words, size_t limit) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (size_t at = 0; at < words.size();) {
    const auto length = utf8_length(words, at);
    if (at + std::max<size_t>(length, 1) > limit) return out + "...";
    if (length == 0 || is_control(words, at)) {
      const auto byte = byte_at(words, at);
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
      ++at;
    } else {
      out.append(words, at, length);
      at += length;
    }
  }
  return out;
}

std::string visible_lines(std::string_view words) {
  std::string out;
  for (size_t begin = 0;;) {
    const auto end = words.find('\n', begin);
    out += visible(words.substr(begin, end - begin));
    if (end == std::string_view::npos) return out;
    out += '\n';
    begin = end + 1;
  }
}

}  // namespace shade
