// The spelling of bytes in tokenizer files: each of the 256 has a printable character of its own, so that a token of
// any bytes is a word. Printable bytes of Latin-1 stand for themselves, the others for U+0100 and on, in order.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace shade::data {

// The bytes that a token stands for; none if it has a character that stands for no byte.
std::optional<std::string> bytes_of_token(std::string_view token);

std::string token_of_byte(unsigned char byte);

}  // namespace shade::data
