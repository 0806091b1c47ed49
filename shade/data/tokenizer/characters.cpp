#include "shade/data/tokenizer/characters.h"

#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <span>
#include <vector>

#include "shade/data/tokenizer/regex.h"

namespace shade::data {
namespace {

struct Character {
  int32_t code = 0;
  size_t size = 0;  // in bytes; 0: there is none
};

Character first_of(std::string_view words) {
  utf8proc_int32_t code = 0;
  const auto size = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(words.data()),
                                     static_cast<utf8proc_ssize_t>(words.size()), &code);
  return size <= 0 ? Character{} : Character{code, static_cast<size_t>(size)};
}

Character last_of(std::string_view words) {
  size_t begin = words.size();
  while (begin > 0 && (static_cast<unsigned char>(words[--begin]) & 0xC0) == 0x80) continue;
  return words.empty() ? Character{} : first_of(words.substr(begin));
}

struct Range {
  int32_t first, last;
};
bool is_in(std::span<const Range> ranges, int32_t code) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const Range& one) { return one.first <= code && code <= one.last; });
}

constexpr Range kSpaces[] = {{0x9, 0xD},       {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
                             {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
// Joiners, and letters in circles and squares, which are symbols.
constexpr Range kOtherWord[] = {
    {0x200C, 0x200D}, {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};

// The characters of a class of regex.h that are written out: "\\x{1c89}-\\x{1c8a}\\x{a7cb}".
void append_ranges(std::string_view members, std::vector<Range>& out) {
  constexpr std::string_view kCharacter = "\\x{";
  for (auto at = members.find(kCharacter); at != std::string_view::npos; at = members.find(kCharacter, at + 1)) {
    int32_t code = 0;
    std::from_chars(members.data() + at + kCharacter.size(), members.data() + members.size(), code, 16);
    if (at > 0 && members[at - 1] == '-')
      out.back().last = code;
    else
      out.push_back({code, code});
  }
}

// Letters, marks and digits that utf8proc doesn't know yet.
bool is_later_word(int32_t code) {
  static const auto ranges = [] {
    std::vector<Range> out;
    for (const char* members : {kLetter, kMark, kNumber}) append_ranges(members, out);
    return out;
  }();
  return is_in(ranges, code);
}

bool is_space(Character c) { return c.size > 0 && is_in(kSpaces, c.code); }

bool is_word(Character c) {
  if (c.size == 0) return false;
  switch (utf8proc_category(c.code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    case UTF8PROC_CATEGORY_CN: return is_later_word(c.code);
    default: return is_in(kOtherWord, c.code);
  }
}

}  // namespace

bool begins_with_word(std::string_view words) { return is_word(first_of(words)); }
bool ends_with_word(std::string_view words) { return is_word(last_of(words)); }

size_t spaces_at_start(std::string_view words) {
  size_t bytes = 0;
  for (auto c = first_of(words); is_space(c); c = first_of(words.substr(bytes))) bytes += c.size;
  return bytes;
}

size_t spaces_at_end(std::string_view words) {
  size_t bytes = 0;
  for (auto c = last_of(words); is_space(c); c = last_of(words.substr(0, words.size() - bytes))) bytes += c.size;
  return bytes;
}

}  // namespace shade::data
