// Parts of a tokenizer.json by name and type. What has another type is an io::FormatError that names it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "shade/data/tokenizer/tokenizer.h"

namespace shade::data {

using Document = nlohmann::json;

inline constexpr TokenId kMaxTokenId = (1 << 24) - 1;

[[noreturn]] void refuse(std::string_view what);

// A member of an object; null if it has none.
const Document& member(const Document& object, const std::string& name);
const Document& object_in(const Document& parent, const std::string& name);
const Document& array_in(const Document& parent, const std::string& name);
bool truth_in(const Document& parent, const std::string& name, bool otherwise);
const std::string& words_in(const Document& parent, const std::string& name);
TokenId id_of(const Document& value, std::string_view token);

void require_false(const Document& part, const char* name, bool otherwise = false);

// A step of the way from text to tokens or back: {"type": "NFC", ...}.
std::string type_of(const Document& step, const char* what);
// A step that is a sequence of steps, or one; none if it is null.
std::vector<Document> steps_of(const Document& step, const char* what, const char* list);

}  // namespace shade::data
