#include "shade/io/untrusted_text.h"

#include "shade/base/visible_text.h"

namespace shade::io {

std::optional<size_t> first_not_utf8(std::string_view words) {
  for (size_t at = 0; at < words.size();) {
    const auto length = utf8_length(words, at);
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

std::string quote(std::string_view words) {
  constexpr size_t kShown = 48;
  return "'" + visible(words, kShown) + "'";
}

}  // namespace shade::io
