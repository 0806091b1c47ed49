#include "shade/base/visible_text.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

namespace shade {
namespace {

unsigned char byte_at(std::string_view words, size_t at) { return static_cast<unsigned char>(words[at]); }

// The character of `length` bytes at `at`.
char32_t decoded(std::string_view words, size_t at, size_t length) {
  constexpr unsigned char kLeadBits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  char32_t out = byte_at(words, at) & kLeadBits[length];
  for (size_t i = 1; i < length; ++i) out = out << 6 | (byte_at(words, at + i) & 0x3F);
  return out;
}

// First and last of what a terminal obeys or reorders text by.
constexpr std::pair<char32_t, char32_t> kHidden[] = {
    {0x00, 0x1F},                        // ASCII controls
    {0x7F, 0x9F},                        // delete, and C1, which some terminals obey as well
    {0x061C, 0x061C},                    // marks of direction
    {0x200E, 0x200F}, {0x2028, 0x202E},  // ends of lines and paragraphs, embeddings and overrides of direction
    {0x2066, 0x2069},                    // isolates
};

bool is_hidden(char32_t c) {
  return std::any_of(std::begin(kHidden), std::end(kHidden),
                     [c](const auto& range) { return range.first <= c && c <= range.second; });
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
    if (length == 0 || is_hidden(decoded(words, at, length))) {
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

namespace {

constexpr std::string_view kParent = "..";

}  // namespace

std::string without_folders(const std::string& word) {
  if (const auto list = std::min(word.find(",/"), word.find(",../")); list != std::string::npos)
    return without_folders(word.substr(0, list)) + "," + without_folders(word.substr(list + 1));
  size_t begin = 0;
  if (const auto equals = word.find('='); word.starts_with("--") && equals != std::string::npos) begin = equals + 1;
  if (word.size() > begin && word[begin] == '@') ++begin;
  if (word.size() <= begin) return word;
  auto path = std::filesystem::path(word.substr(begin)).lexically_normal();
  if (!path.is_absolute() && *path.begin() != kParent) return word;
  if (!path.has_filename()) path = path.parent_path();
  if (path.filename() == kParent) return word;  // names nothing
  return word.substr(0, begin) + ".../" + path.filename().string();
}

std::string without_folders_within(std::string_view sentence) {
  std::string out;
  while (!sentence.empty()) {
    const char before = out.empty() ? ' ' : out.back();
    const bool begins = (sentence.front() == '/' || sentence.starts_with("../")) &&
                        std::string_view(" \t\n\"'(=@,:").find(before) != std::string_view::npos;
    const auto end = !begins ? 1 : sentence.find_first_of(before == '"' ? "\"" : " \t\n\"',;:)");
    const auto part = sentence.substr(0, end);
    out += begins && part.size() > 1 ? without_folders(std::string(part)) : std::string(part);
    sentence.remove_prefix(part.size());
  }
  return out;
}

Json without_folders(Json json) {
  if (json.is_string()) return without_folders(json.get<std::string>());
  if (json.is_structured())
    for (auto& part : json) part = without_folders(std::move(part));
  return json;
}

}  // namespace shade
