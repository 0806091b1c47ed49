// A whole untrusted JSON text as one value, read by io::read_strict_json's rules.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace shade::data {

// Objects are sorted: a vocabulary has 100,000 keys. Numbers that are not whole or negative become 0.5: they are only
// known to be something else. Throws io::FormatError.
nlohmann::json read_strict_document(std::string_view json, std::string_view what);

}  // namespace shade::data
