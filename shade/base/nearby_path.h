// Messages about files and folders that are not there.
#pragma once

#include <filesystem>
#include <string>

namespace shade {

// "; did you mean 'runs/lm_dp'?" if a name beside the missing one is spelled alike, differs in case or has an ending
// more; else empty. In a path of several names the first one that is missing is judged.
std::string nearby(const std::filesystem::path& missing);

}  // namespace shade
