#include "shade/base/program_path.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "shade/base/error.h"
#include "shade/base/strings.h"
#include "shade/base/visible_text.h"

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

namespace {

namespace fs = std::filesystem;

constexpr size_t kMostNames = 10000;  // of a folder; in a larger one nothing is searched

std::vector<std::string> names_in(const fs::path& folder) {
  std::error_code fault;
  std::vector<std::string> out;
  for (fs::directory_iterator entry(folder.empty() ? "." : folder, fault), end; !fault && entry != end;
       entry.increment(fault)) {
    if (out.size() == kMostNames) return {};
    out.push_back(entry->path().filename().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

std::string nearby(const fs::path& missing) {
  std::error_code fault;
  fs::path above, rest;
  std::string name;
  for (const auto& part : missing) {
    if (!name.empty())
      rest /= part;
    else if (part.empty() || fs::exists(above / part, fault))
      above /= part;
    else
      name = part.string();
  }
  if (name.empty()) return {};
  const auto names = names_in(above);
  auto found = nearest(name, names);
  for (const auto& other : names)
    if (fs::path(other).stem() == name) found = other;
  if (!found) return {};
  const auto whole = above / *found / rest;
  return text("; did you mean '",
              visible((rest.empty() || !fs::exists(whole, fault) ? above / *found : whole).string()), "'?");
}

}  // namespace shade
