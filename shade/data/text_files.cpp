#include "shade/data/text_files.h"

#include <algorithm>
#include <optional>

#include "shade/base/error.h"
#include "shade/base/explain.h"
#include "shade/base/program_path.h"
#include "shade/io/strict_json.h"

namespace shade::data {
namespace {

namespace fs = std::filesystem;

struct Ending {
  std::string_view word;
  TextFormat format;
};
constexpr Ending kEndings[] = {{".txt", TextFormat::txt},         {".json", TextFormat::json},
                               {".jsonl", TextFormat::jsonl},     {".csv", TextFormat::csv},
                               {".parquet", TextFormat::parquet}, {".arrow", TextFormat::arrow},
                               {".feather", TextFormat::arrow}};

struct Wrapping {
  std::string_view word;
  Compression compression;
};
constexpr Wrapping kWrappings[] = {{".gz", Compression::gzip}, {".zst", Compression::zstd}};

// Tables are compressed inside: a file of one has no wrapping.
bool may_be_wrapped(TextFormat format) { return format != TextFormat::parquet && format != TextFormat::arrow; }

std::optional<TextFile> describe_file(const fs::path& path, std::string name) {
  auto inner = path.filename();
  auto compression = Compression::none;
  for (const auto& wrapping : kWrappings)
    if (inner.extension() == wrapping.word) compression = wrapping.compression;
  if (compression != Compression::none) inner.replace_extension();
  for (const auto& [ending, format] : kEndings)
    if (inner.extension() == ending && (compression == Compression::none || may_be_wrapped(format)))
      return TextFile{path,        std::move(name),     format,
                      compression, fs::file_size(path), fs::last_write_time(path).time_since_epoch().count()};
  return std::nullopt;
}

std::vector<TextFile> walk(const fs::path& folder) {
  std::vector<TextFile> files;
  for (auto at = fs::recursive_directory_iterator(folder); at != fs::recursive_directory_iterator(); ++at) {
    if (at->path().filename().string().starts_with('.')) {
      at.disable_recursion_pending();
      continue;
    }
    if (!at->is_regular_file()) continue;
    if (auto file = describe_file(at->path(), at->path().lexically_relative(folder).generic_string()))
      files.push_back(std::move(*file));
  }
  return files;
}

}  // namespace

std::string text_endings() {
  std::string out;
  for (const auto& ending : kEndings) out += text(out.empty() ? "" : ", ", ending.word);
  return out + "; texts and .csv also with .gz or .zst";
}

std::string place_in(const TextFile& file, int64_t line) {
  return text(file.path.string(), may_be_wrapped(file.format) ? ":" : ": row ", line);
}

bool is_text_file(const fs::path& file) {
  std::error_code fault;
  return fs::is_regular_file(file, fault) && describe_file(file, file.filename().string());
}

std::vector<TextFile> find_text_files(const fs::path& place) {
  std::error_code missing;
  const auto kind = fs::status(place, missing).type();
  SHADE_REQUIRE(kind == fs::file_type::directory || kind == fs::file_type::regular, "no data at ", place,
                "; expected a folder of ", text_endings(), " files", nearby(place));
  std::vector<TextFile> files;
  try {
    if (kind == fs::file_type::directory) {
      files = walk(place);
    } else if (auto file = describe_file(place, place.filename().string())) {
      files.push_back(std::move(*file));
    }
  } catch (const fs::filesystem_error& fault) {
    throw Error(text("cannot look through ", place, ": ", explain(fault)));
  }
  SHADE_REQUIRE(!files.empty(), place, " has no file that ends in ", text_endings());
  for (const auto& file : files)  // their names are written down: in the token cache, in results
    SHADE_REQUIRE(!io::first_not_utf8(file.name), "the name of the data file ", io::quote(file.name),
                  " is not valid UTF-8; rename it");
  std::sort(files.begin(), files.end(), [](const TextFile& a, const TextFile& b) { return a.name < b.name; });
  return files;
}

}  // namespace shade::data
