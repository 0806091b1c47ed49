#include "shade/base/without_folders.h"

#include <algorithm>
#include <filesystem>

namespace shade {
namespace {

constexpr std::string_view kParent = "..";

}  // namespace

std::string without_folders(const std::string& word) {
  if (const auto list = std::min(word.find(",/"), word.find(",../")); list != std::string::npos)
    return without_folders(word.substr(0, list)) + "," + without_folders(word.substr(list + 1));
  size_t begin = 0;
  if (const auto equals = word.find('='); word.starts_with("--") && equals != std::string::npos) begin = equals + 1;
  if (word.size() > begin && word[begin] == '@') ++begin;
  if (word.size() <= begin) return word;
  auto path = std::filesystem::path(word.substr(begin)).lexically_normal();
  if (!path.is_absolute() && *path.begin() != kParent) return word;
  if (!path.has_filename()) path = path.parent_path();
  if (path.filename() == kParent) return word;  // names nothing
  return word.substr(0, begin) + ".../" + path.filename().string();
}

std::string without_folders_within(std::string_view sentence) {
  std::string out;
  while (!sentence.empty()) {
    const char before = out.empty() ? ' ' : out.back();
    const bool begins = (sentence.front() == '/' || sentence.starts_with("../")) &&
                        std::string_view(" \t\n\"'(=@,:").find(before) != std::string_view::npos;
    const auto end = !begins ? 1 : sentence.find_first_of(before == '"' ? "\"" : " \t\n\"',;:)");
    const auto part = sentence.substr(0, end);
    out += begins && part.size() > 1 ? without_folders(std::string(part)) : std::string(part);
    sentence.remove_prefix(part.size());
  }
  return out;
}

Json without_folders(Json json) {
  if (json.is_string()) return without_folders(json.get<std::string>());
  if (json.is_structured())
    for (auto& part : json) part = without_folders(std::move(part));
  return json;
}

}  // namespace shade
