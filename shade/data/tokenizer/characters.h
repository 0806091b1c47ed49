// Characters of UTF-8 texts as added tokens look at their neighbours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shade::data {

// Bytes of the character that begins with this byte.
constexpr size_t character_size(unsigned char first) {
  return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

// Letters, marks, digits, connectors and joiners, as \w of Rust's regular expressions has them.
bool begins_with_word(std::string_view words);
bool ends_with_word(std::string_view words);

// How many bytes of white space (Unicode's property) a text begins and ends with.
size_t spaces_at_start(std::string_view words);
size_t spaces_at_end(std::string_view words);

}  // namespace shade::data
