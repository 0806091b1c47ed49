#include "shade/data/chat/chat_writer.h"

#include "shade/base/error.h"
#include "shade/io/errors.h"

namespace shade::data {
namespace {

// White space of more than one byte, in UTF-8: U+0085, U+00A0, U+1680, U+2000 to U+200A, U+2028, U+2029, U+202F,
// U+205F, U+3000.
constexpr std::string_view kWide[] = {"\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\x80", "\xE2\x80\x81",
                                      "\xE2\x80\x82", "\xE2\x80\x83", "\xE2\x80\x84", "\xE2\x80\x85", "\xE2\x80\x86",
                                      "\xE2\x80\x87", "\xE2\x80\x88", "\xE2\x80\x89", "\xE2\x80\x8A", "\xE2\x80\xA8",
                                      "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80"};

bool is_narrow(char c) { return c == ' ' || (c >= '\t' && c <= '\r') || (c >= '\x1c' && c <= '\x1f'); }

size_t space_before(std::string_view words) {
  if (words.empty()) return 0;
  if (is_narrow(words.front())) return 1;
  for (const auto wide : kWide)
    if (words.starts_with(wide)) return wide.size();
  return 0;
}

size_t space_after(std::string_view words) {
  if (words.empty()) return 0;
  if (is_narrow(words.back())) return 1;
  for (const auto wide : kWide)
    if (words.ends_with(wide)) return wide.size();
  return 0;
}

}  // namespace

void ChatWriter::add(std::string_view words, bool counted) {
  if (words.empty()) return;
  if (parts_.empty() || parts_.back().counted != counted) parts_.push_back({.text = {}, .counted = counted});
  parts_.back().text += words;
}

std::string_view strip(std::string_view words) {
  for (auto n = space_before(words); n > 0; n = space_before(words)) words.remove_prefix(n);
  for (auto n = space_after(words); n > 0; n = space_after(words)) words.remove_suffix(n);
  return words;
}

std::string_view strip_newlines_left(std::string_view words) {
  while (words.starts_with('\n')) words.remove_prefix(1);
  return words;
}

std::string_view strip_newlines_right(std::string_view words) {
  while (words.ends_with('\n')) words.remove_suffix(1);
  return words;
}

void require_alternating(std::span<const Message> messages, size_t first) {
  for (size_t i = 0; i < messages.size(); ++i)
    if (is_user(messages[i]) != (i % 2 == 0))
      throw io::FormatError(text("message ", first + i + 1, " of the conversation has the role \"", messages[i].role,
                                 "\"; the model's chat template lets user and assistant take turns, the user first"));
}

}  // namespace shade::data
