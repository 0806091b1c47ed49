// Unicode's normal form C as tokenizers have it.
//
// By utf8proc: one small library with its tables inside, where ICU brings 30 MB of data. The `tokenizers` package
// normalizes by Unicode 9, and ids must be the same: marks that came later stand for themselves, as they do there.
#pragma once

#include <string>
#include <string_view>

namespace shade::data {

// `words` (UTF-8) if a first look says that they are in that form already, else `storage`, which is filled.
std::string_view nfc(std::string_view words, std::string& storage);

}  // namespace shade::data
