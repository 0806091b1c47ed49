#include "shade/base/without_folders.h"

#include <filesystem>

namespace shade {

std::string without_folders(const std::string& word) {
  size_t begin = 0;
  if (const auto equals = word.find('='); word.starts_with("--") && equals != std::string::npos) begin = equals + 1;
  if (word.size() > begin && word[begin] == '@') ++begin;
  if (word.size() <= begin || word[begin] != '/') return word;
  auto path = std::filesystem::path(word.substr(begin)).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return word.substr(0, begin) + ".../" + path.filename().string();
}

Json without_folders(Json json) {
  if (json.is_string()) return without_folders(json.get<std::string>());
  if (json.is_structured())
    for (auto& part : json) part = without_folders(std::move(part));
  return json;
}

}  // namespace shade
