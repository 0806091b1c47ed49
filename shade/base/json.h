// Result files. Keys keep the order in which they were written: people read these files too.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

namespace shade {

using Json = nlohmann::ordered_json;

// Throws Error naming the file and, for bad syntax, the byte.
Json read_json(const std::filesystem::path& file);

// Written beside and renamed: a reader sees the old file or the new one, never half of one.
void write_json(const std::filesystem::path& file, const Json& value);

}  // namespace shade
