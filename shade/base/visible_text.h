// Text of untrusted files as a person may see it: nothing in it moves a cursor, sets a colour or reorders what is read.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "shade/base/json.h"

namespace shade {

// Bytes of the UTF-8 character at `at` (RFC 3629: no overlong forms, no surrogates); 0 if the bytes there are none.
size_t utf8_length(std::string_view words, size_t at);

// Control characters (C0, C1, Unicode's marks and overrides of direction) and broken UTF-8 as \xNN. Beyond `limit`
// bytes of `words` the rest is "...", so that a name of megabytes doesn't become a message of megabytes.
std::string visible(std::string_view words, size_t limit = std::string_view::npos);

// The same for a message of several lines: line feeds stay.
std::string visible_lines(std::string_view words);

// Results are shared, and a whole path tells of a machine and its user: of an absolute one, and of one that leads out
// of the working folder, only the last name stays.

// "/home/ann/llama" is ".../llama"; so are the paths in "--model=/home/ann/llama", "@/home/ann/classes" and the list
// "nano,/home/ann/llama", and "../../ann/llama". Other words stay, relative paths below the working folder among them.
std::string without_folders(const std::string& word);

// The same for every path in a sentence; one with spaces must be in double quotes.
std::string without_folders_within(std::string_view sentence);

Json without_folders(Json json);  // every text in it

}  // namespace shade
