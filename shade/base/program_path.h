// Programs in PATH.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace shade {

std::string search_path();  // PATH; empty if it is not set

// The path of the first file of this name that may be run, in folders separated by colons. Only absolute folders count:
// what ".", "bin" or an empty word names depends on the current folder, which may hold data of others.
std::optional<std::filesystem::path> program_in(const std::string& folders, const std::string& program);

}  // namespace shade
