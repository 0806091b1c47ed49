// Opens the rows of a file, whatever its format.
#pragma once

#include <filesystem>
#include <memory>

#include "shade/base/names.h"
#include "shade/base/units.h"
#include "shade/data/row.h"
#include "shade/data/text_files.h"

namespace shade::data {

// The rows of a .txt file, each with the one field "text": the whole file, or each paragraph (blank lines between), or
// each line.
enum class TextUnit { file, paragraph, line };
inline std::span<const Name<TextUnit>> names_of(TextUnit) {
  static constexpr Name<TextUnit> kNames[] = {
      {"file", TextUnit::file}, {"paragraph", TextUnit::paragraph}, {"line", TextUnit::line}};
  return kNames;
}

std::unique_ptr<RowReader> open_plain_rows(const TextFile& file, TextUnit unit);

inline constexpr Bytes kMaxRow = MiB(64);  // of text; larger ones are refused

// Memory is bounded whatever the file's size: a row and a buffer; of .parquet and .arrow what shade/data/arrow says.
// Throws Error if the file can't be read, UsageError if it needs libshade_arrow.so and that is not there.
std::unique_ptr<RowReader> open_rows(const TextFile& file, TextUnit unit, const Wanted& wanted);

// Throws io::FormatError naming the line of the first byte that is not UTF-8; `words` begin on `line`.
void check_utf8(const std::filesystem::path& path, int64_t line, std::string_view words);

}  // namespace shade::data
