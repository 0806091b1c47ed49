// Text from untrusted files: whether it is UTF-8, and how it is shown in a message.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace shade::io {

// The offset of the first byte that is part of no UTF-8 character (RFC 3629: no overlong forms, no surrogates).
std::optional<size_t> first_not_utf8(std::string_view words);

// 'words', for a message: control characters and broken UTF-8 as \xNN, so that a name can't move the cursor, and not
// more than 48 bytes of it, so that a name of megabytes doesn't become a message of megabytes.
std::string quote(std::string_view words);

}  // namespace shade::io
