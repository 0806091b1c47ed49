// Programs in PATH, and names of files that are not there.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace shade {

std::string search_path();  // PATH; empty if it is not set

// The path of the first file of this name that may be run, in folders separated by colons. Only absolute folders count:
// what ".", "bin" or an empty word names depends on the current folder, which may hold data of others.
std::optional<std::filesystem::path> program_in(const std::string& folders, const std::string& program);

// Messages about files and folders that are not there.

// "; did you mean 'runs/lm_dp'?" if a name beside the missing one is spelled alike, differs in case or has an ending
// more; else empty. In a path of several names the first one that is missing is judged.
std::string nearby(const std::filesystem::path& missing);

}  // namespace shade
