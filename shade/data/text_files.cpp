#include "shade/data/text_files.h"

#include <algorithm>
#include <optional>

#include "shade/base/error.h"

namespace shade::data {
namespace {

namespace fs = std::filesystem;

std::optional<TextFormat> format_of(const fs::path& path) {
  for (const auto& [ending, format] : names_of(TextFormat{}))
    if (path.extension() == ending) return format;
  return std::nullopt;
}

TextFile describe_file(const fs::path& path, std::string name, TextFormat format) {
  return {path, std::move(name), format, fs::file_size(path), fs::last_write_time(path).time_since_epoch().count()};
}

std::vector<TextFile> walk(const fs::path& folder) {
  std::vector<TextFile> files;
  for (auto at = fs::recursive_directory_iterator(folder); at != fs::recursive_directory_iterator(); ++at) {
    if (at->path().filename().string().starts_with('.')) {
      at.disable_recursion_pending();
      continue;
    }
    const auto format = format_of(at->path());
    if (format && at->is_regular_file())
      files.push_back(describe_file(at->path(), at->path().lexically_relative(folder).generic_string(), *format));
  }
  return files;
}

}  // namespace

std::vector<TextFile> find_text_files(const fs::path& place) {
  std::error_code missing;
  const auto kind = fs::status(place, missing).type();
  SHADE_REQUIRE(kind == fs::file_type::directory || kind == fs::file_type::regular, "no data at ", place,
                "; expected a folder of .txt, .json and .jsonl files");
  std::vector<TextFile> files;
  try {
    if (kind == fs::file_type::directory) {
      files = walk(place);
    } else if (const auto format = format_of(place)) {
      files.push_back(describe_file(place, place.filename().string(), *format));
    }
  } catch (const fs::filesystem_error& fault) {
    throw Error(text("cannot look through ", place, ": ", fault.what()));
  }
  SHADE_REQUIRE(!files.empty(), place, " has no .txt, .json or .jsonl file");
  std::sort(files.begin(), files.end(), [](const TextFile& a, const TextFile& b) { return a.name < b.name; });
  return files;
}

}  // namespace shade::data
