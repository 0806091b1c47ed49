#include "shade/base/program_path.h"

#include <unistd.h>

#include <cstdlib>

#include "shade/base/strings.h"

namespace shade {

std::string search_path() {
  const char* path = std::getenv("PATH");
  return path == nullptr ? "" : path;
}

std::optional<std::filesystem::path> program_in(const std::string& folders, const std::string& program) {
  for (const auto& folder : split(folders, ':')) {
    const auto file = std::filesystem::path(folder) / program;
    if (file.is_absolute() && ::access(file.c_str(), X_OK) == 0) return file;
  }
  return std::nullopt;
}

}  // namespace shade
