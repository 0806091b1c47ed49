// Text of untrusted files as a person may see it: nothing in it moves a cursor, sets a colour or reorders what is read.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shade {

// Bytes of the UTF-8 character at `at` (RFC 3629: no overlong forms, no surrogates); 0 if the bytes there are none.
size_t utf8_length(std::string_view words, size_t at);

// Control characters (C0, C1, Unicode's marks and overrides of direction) and broken UTF-8 as \xNN. Beyond `limit`
// bytes of `words` the rest is "...", so that a name of megabytes doesn't become a message of megabytes.
std::string visible(std::string_view words, size_t limit = std::string_view::npos);

// The same for a message of several lines: line feeds stay.
std::string visible_lines(std::string_view words);

}  // namespace shade
