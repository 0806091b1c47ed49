// Result files. Keys keep the order in which they were written: people read these files too.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

namespace shade {

class Config;
class Field;

using Json = nlohmann::ordered_json;

// What is not JSON, or nested more than 200 levels deep, is an Error: printing, comparing and copying a value takes the
// stack of a call for each level.
Json parse_json(std::string_view words);

// The same for a file. Throws Error naming the file and, for bad syntax, the byte.
Json read_json(const std::filesystem::path& file);

// Written beside and renamed: a reader sees the old file or the new one, never half of one.
void write_json(const std::filesystem::path& file, const Json& value);

// The present value, typed.
Json json_values(const Field& field);

// {section: {name: value}}
Json json_values(const Config& config);

}  // namespace shade
