// The rows of a .txt file, each with the one field "text": the whole file, or each paragraph (blank lines between), or
// each line.
#pragma once

#include <memory>

#include "shade/base/names.h"
#include "shade/data/row.h"
#include "shade/data/text_files.h"

namespace shade::data {

enum class TextUnit { file, paragraph, line };
inline std::span<const Name<TextUnit>> names_of(TextUnit) {
  static constexpr Name<TextUnit> kNames[] = {
      {"file", TextUnit::file}, {"paragraph", TextUnit::paragraph}, {"line", TextUnit::line}};
  return kNames;
}

std::unique_ptr<RowReader> open_plain_rows(const TextFile& file, TextUnit unit);

}  // namespace shade::data
