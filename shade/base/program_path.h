// Programs in PATH.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace shade {

std::string search_path();  // PATH; empty if it is not set

// The absolute path of the first file of this name that may be run, in folders separated by colons. Empty folders,
// which a shell takes for the current one, are skipped.
std::optional<std::filesystem::path> program_in(const std::string& folders, const std::string& program);

}  // namespace shade
